import { fstatSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { InvalidOptionError } from '@akrijs/runtime'

/**
 * Makes this process end when its standard input does: as by SIGTERM, and by SIGKILL 5 s later. So it does not outlive whoever
 * holds the other end of the pipe, however that one ends, and also where a handler never gives the thread back.
 *
 * @throws AkriError where the standard input is something that nobody holds open
 */
export function endWithStdin(): void {
  const stdin = fstatSync(0)
  if (!stdin.isFIFO() && !stdin.isSocket()) {
    throw new InvalidOptionError(
      'the standard input is not a pipe, so nobody can hold it open: leave out --until-stdin-ends, or start this with a pipe',
    )
  }
  // Whoever reads our lines is gone by then too, which must not end us before all is closed.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  new Worker(new URL('./stdin-watch.js', import.meta.url), { execArgv: [], env: {} }).unref()
}
