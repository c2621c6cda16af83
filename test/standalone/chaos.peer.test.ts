// Many rounds of the chaos, which take minutes.
process.env.AKRI_CHAOS_ROUNDS ??= '25'
await import('./chaos.test.js')
