import { fstatSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { InvalidOptionError } from '@akrijs/runtime'

/**
 * Ends this process when its standard input ends: by SIGTERM, and by SIGKILL 5 s later. The process
 * does not outlive the program at the other end of the pipe, not even if a handler blocks the main
 * thread.
 *
 * @throws InvalidOptionError if the standard input is not a pipe
 */
export function endWithStdin(): void {
  const stdin = fstatSync(0)
  if (!stdin.isFIFO() && !stdin.isSocket()) {
    throw new InvalidOptionError(
      'the standard input is not a pipe: leave out --until-stdin-ends, or start ' +
        'akri-handler with a pipe',
    )
  }
  // The reader of our output has ended by then too. A failed write must not end the process before
  // all is closed.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  new Worker(new URL('./stdin-watch.js', import.meta.url), { execArgv: [], env: {} }).unref()
}
