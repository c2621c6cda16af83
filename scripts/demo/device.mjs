// What the simulated devices of the demo have in common: they end by SIGTERM, and with the demo,
// however that ends.
let close = async () => {}
let ending = false

process.once('SIGTERM', () => end(false))
process.once('disconnect', () => end(true))

/**
 * Tells the demo that the device is there. @param closing takes it away; it is told whether the
 * demo is over
 */
export function ready(closing) {
  close = closing
  if (process.connected) process.send('ready')
}

async function end(isOver) {
  if (ending) return
  ending = true
  await close(isOver)
  process.exit(0)
}
