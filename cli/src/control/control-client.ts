import { codeOf, messageOf } from '@akrijs/runtime'
import { NoAgentError } from '../errors.js'

// On Node.js 24, an import of node:http loads undici too: 2 MB.
const { request } = process.getBuiltinModule('node:http')

/** The longest answer, in bytes. */
const MAX_BYTES = 256 * 1024 * 1024

/**
 * Asks the agent of a state directory.
 * @returns undefined if there is no such object
 * @throws NoAgentError
 */
export function askAgent(socket: string, path: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const call = request({ socketPath: socket, path, timeout: 10_000 }, (response) => {
      const chunks: Buffer[] = []
      let bytes = 0
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        if (bytes > MAX_BYTES)
          call.destroy(new NoAgentError(`the answer has more than ${MAX_BYTES} bytes`))
        else chunks.push(chunk)
      })
      // The agent ended during its answer.
      response.on('error', (error) => call.destroy(error))
      response.on('aborted', () =>
        reject(new NoAgentError(`the agent on ${socket} ended while it answered`)),
      )
      response.on('end', () => {
        if (response.statusCode !== 200) return resolve(undefined)
        try {
          resolve(JSON.parse(Buffer.concat(chunks).toString('utf8')))
        } catch (error) {
          reject(new NoAgentError(`the server on ${socket} is no agent`, { cause: error }))
        }
      })
    })
    call.on('timeout', () => call.destroy(new NoAgentError('the agent does not answer')))
    call.on('error', (error) => {
      const isAbsent = ['ENOENT', 'ECONNREFUSED'].includes(String(codeOf(error)))
      const why = isAbsent ? 'no agent runs there' : messageOf(error)
      const message =
        `no agent answers on ${socket}: ${why}. Start an agent with akri run, or name its ` +
        'directory with --state-dir'
      reject(new NoAgentError(message, { cause: error }))
    })
    call.end()
  })
}
