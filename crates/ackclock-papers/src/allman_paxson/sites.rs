//! The ends of the paths: 31 places like those of the paper's measurement, most of them in North America,
//! some in Europe, Asia and Australia.

/// The location of a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site {
    #[cfg_attr(not(test), expect(dead_code, reason = "tells a reader what the numbers are"))]
    pub(super) name: &'static str,
    /// In degrees, north and east.
    latitude: f64,
    longitude: f64,
}

/// The delay between two places, one way and without queues, in milliseconds.
///
/// Light in glass travels 200 km in a millisecond. Cables are longer than the straight line by a detour, in
/// percent of that line, and routers add theirs.
pub(super) fn delay_ms(from: &Site, to: &Site, detour_percent: u64, routers_ms: u64) -> u64 {
    let [a, b] = [from, to].map(|site| (site.latitude.to_radians(), site.longitude.to_radians()));
    // The haversine formula.
    let half = |angle: f64| (angle / 2.0).sin().powi(2);
    let chord = half(b.0 - a.0) + a.0.cos() * b.0.cos() * half(b.1 - a.1);
    let km = 2.0 * EARTH_KM * chord.sqrt().min(1.0).asin();
    // Whole milliseconds, so that a platform's sine does not change the simulation.
    (km * detour_percent as f64 / 100.0 / KM_IN_MS).round() as u64 + routers_ms
}

const EARTH_KM: f64 = 6371.0;
const KM_IN_MS: f64 = 200.0;

const fn site(name: &'static str, latitude: f64, longitude: f64) -> Site {
    Site { name, latitude, longitude }
}

pub(super) const SITES: [Site; 31] = [
    site("Berkeley", 37.9, -122.3),
    site("Boston", 42.4, -71.1),
    site("Boulder", 40.0, -105.3),
    site("Cambridge, Massachusetts", 42.4, -71.1),
    site("Charlottesville", 38.0, -78.5),
    site("Colorado Springs", 38.8, -104.8),
    site("Fairfax", 38.8, -77.3),
    site("Lincoln", 40.8, -96.7),
    site("Livermore", 37.7, -121.8),
    site("Los Angeles", 34.1, -118.3),
    site("Menlo Park", 37.5, -122.2),
    site("Middlefield", 41.5, -72.7),
    site("Montreal", 45.5, -73.6),
    site("New York", 40.7, -74.0),
    site("Portland", 45.5, -122.7),
    site("San Diego", 32.9, -117.2),
    site("St. Louis", 38.6, -90.3),
    site("Upton", 40.9, -72.9),
    site("White Plains", 41.0, -73.8),
    site("Canterbury", 51.3, 1.1),
    site("London", 51.5, -0.1),
    site("Mannheim", 49.5, 8.5),
    site("Nijmegen", 51.8, 5.9),
    site("Sophia Antipolis", 43.6, 7.1),
    site("Stuttgart", 48.7, 9.1),
    site("Trondheim", 63.4, 10.4),
    site("Venlo", 51.4, 6.2),
    site("Melbourne", -37.8, 145.0),
    site("Newcastle, New South Wales", -32.9, 151.8),
    site("Pohang", 36.0, 129.3),
    site("Vancouver", 49.3, -123.1),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_those_of_the_map() {
        let site = |name| SITES.iter().find(|site| site.name == name).unwrap();
        // 4,140 km and 16,900 km.
        assert_eq!(delay_ms(site("Berkeley"), site("New York"), 150, 3), 34);
        assert_eq!(delay_ms(site("London"), site("Melbourne"), 150, 3), 130);
        assert_eq!(delay_ms(site("London"), site("London"), 150, 3), 3);
        let [there, back] = [["London", "Pohang"], ["Pohang", "London"]]
            .map(|[from, to]| delay_ms(site(from), site(to), 200, 10));
        assert_eq!(there, back);
    }
}
