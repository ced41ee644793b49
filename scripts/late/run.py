import subprocess,json,os,sys
T=open('/dev/null')
def scen(cc,rate,rtt,queue,seed,extra=''):
    return f'''
seed = {seed}
duration = "30s"
host = [{{ name = "a" }}, {{ name = "b" }}]
[[link]]
between = ["a","b"]
there = {{ rate = "{rate}", delay = "{rtt/2}ms", queue = {{ drop-tail = {{ limit = "{queue}" }} }} {extra} }}
back = {{ rate = "{rate}", delay = "{rtt/2}ms", queue = {{ drop-tail = {{ limit = "1000packets" }} }} }}
[[traffic]]
name = "d"
from = "a"
to = "b"
tcp = {{ congestion = "{cc}", trace = "all" }}
what = {{ bulk = {{}} }}
'''
def run(cc,rate,rtt,queue,late,arrive,node,seed,extra=''):
    f=f'/tmp/late-{os.getpid()}.toml'; open(f,'w').write(scen(cc,rate,rtt,queue,seed,extra))
    env=dict(os.environ,LATE=str(late),ARRIVE=str(arrive))
    if node is not None: env['LATE_NODE']=str(node)
    o=subprocess.run(['target/release/tcplab','run',f,'--json','-'],env=env,capture_output=True,text=True)
    try: return json.loads(o.stdout)
    except Exception: print(o.stdout[:500],o.stderr[:1000]); raise
if __name__=='__main__':
    r=run('vegas','100Mbit/s',20,'1000packets',5_000_000,0,None,1)
    print(json.dumps(r,indent=1)[:3500])
