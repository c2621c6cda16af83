import { messageOf } from '@akrijs/runtime'
import { print } from '@akrijs/runtime/program'

/** Ends the program: with 0 if the reader of the output has closed it, as `head` does. */
export function endOnOutputError(error: NodeJS.ErrnoException): never {
  if (error.code === 'EPIPE') process.exit(0)
  print(process.stderr, `akri: standard output cannot be written: ${messageOf(error)}\n`)
  process.exit(1)
}
