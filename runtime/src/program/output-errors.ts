import { messageOf, OutputError } from '../errors/errors.js'
import { print } from './stray-output.js'

/** Whether the reader of the output has closed it, as `head` does. This is no failure. */
export function isClosedOutput(error: NodeJS.ErrnoException): boolean {
  return error.code === 'EPIPE'
}

export function outputError(error: NodeJS.ErrnoException): OutputError {
  const message = `standard output cannot be written: ${messageOf(error)}`
  return new OutputError(message, { cause: error })
}

/**
 * Makes a listener of errors of standard output that ends the process: after a closed output with
 * the exit code that the program has set so far.
 */
export function outputErrorEnd(program: string): (error: NodeJS.ErrnoException) => never {
  return (error) => {
    if (isClosedOutput(error)) process.exit()
    print(process.stderr, `${program}: ${outputError(error).message}\n`)
    process.exit(1)
  }
}
