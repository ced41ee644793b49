from run import run
import statistics as st
def go(label,cc,rate,rtt,q,late,node=0,extra=''):
    row=[]
    for mode in ('none',0,1,2):
        v=[]
        for seed in (1,2,3,4,5):
            r=run(cc,rate,rtt,q,0 if mode=='none' else late,0 if mode=='none' else mode,node,seed,extra)
            f=r['flows'][0]; l=r['links'][0]
            v.append((f['goodput_bytes_per_second']*8/1e6, l['queue_delay']['mean']*1e3, f['there']['retransmits'], f['there']['timeouts']))
        row.append(' '.join('%6.1f'%st.median(x) for x in zip(*v)))
    print('%-34s'%label,' | '.join(row),flush=True)
for late in (1,5,20):
    for cc in ('vegas','cubic','ledbat-plus-plus','illinois','bbr','newreno'):
        go(f'{cc} late {late} ms',cc,'100Mbit/s',20,'250packets',late*1_000_000)
for late in (1,5,20):
    for cc in ('cubic','bbr'):
        go(f'{cc} reorder 1% 3ms late {late}',cc,'100Mbit/s',20,'2500packets',late*1_000_000,0,', reorder = { share = 0.01, by = "3ms" }')
        go(f'{cc} reorder 1% 8ms late {late}',cc,'100Mbit/s',20,'2500packets',late*1_000_000,0,', reorder = { share = 0.01, by = "8ms" }')
        go(f'{cc} loss 0.1% late {late}',cc,'100Mbit/s',20,'2500packets',late*1_000_000,0,', loss = { independent = 0.001 }')
