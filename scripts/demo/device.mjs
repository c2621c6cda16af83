// The life of a simulated device of the demo: the device ends by SIGTERM, and with any end of the
// demo.
let close = async () => {}
let ending = false

process.once('SIGTERM', () => end(false))
process.once('disconnect', () => end(true))

/**
 * Tells the demo that the device is ready.
 * @param {(isOver: boolean) => Promise<void>} onEnd closes the device; `isOver`: the demo has ended
 */
export function ready(onEnd) {
  close = onEnd
  if (process.connected) process.send('ready')
}

async function end(isOver) {
  if (ending) return
  ending = true
  await close(isOver)
  process.exit(0)
}
