import { once } from 'node:events'
import { renameSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { takeSnapshot } from './snapshot.js'

/**
 * Takes pictures of the camera of this container until the signal is aborted. The last picture is
 * served on `SNAPSHOT_PORT`, if set. The camera's Instance shows when the picture was taken, or why
 * there is none.
 */
export async function run(environment: NodeJS.ProcessEnv, signal: AbortSignal): Promise<void> {
  const {
    ONVIF_DEVICE_SERVICE_URL: url,
    ONVIF_USERNAME: username,
    ONVIF_PASSWORD: password,
  } = environment
  if (url === undefined)
    throw new Error(
      'ONVIF_DEVICE_SERVICE_URL is not set: this program runs as the broker of a camera',
    )
  const seconds = Number(environment.SNAPSHOT_SECONDS ?? 10)
  if (!(seconds > 0))
    throw new Error(
      `SNAPSHOT_SECONDS is ${environment.SNAPSHOT_SECONDS}: write a number of seconds`,
    )
  let last: Buffer | undefined
  const server = http.createServer((_request, response) => {
    if (last === undefined) response.writeHead(503).end('there is no picture yet\n')
    else
      response
        .writeHead(200, { 'content-type': 'image/jpeg', 'content-length': last.length })
        .end(last)
  })
  if (environment.SNAPSHOT_PORT !== undefined)
    await once(server.listen(Number(environment.SNAPSHOT_PORT)), 'listening')
  try {
    while (!signal.aborted) {
      try {
        last = await takeSnapshot({ url, username, password })
        report(environment, 'snapshot', `${last.length} bytes at ${new Date().toISOString()}`)
      } catch (error) {
        // The text can come from a camera: it becomes one line without control characters.
        const reason = String(error instanceof Error ? error.message : error).replace(
          /[\p{C}\p{Z}]+/gu,
          ' ',
        )
        report(environment, 'snapshot', `none at ${new Date().toISOString()}: ${reason}`)
      }
      await sleep(seconds * 1000, undefined, { signal }).catch(() => {})
    }
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

/** A report of a broker shows in the Instance of its device (docs/broker-info.md). */
function report(
  { AKRI_BROKER_INFO_DIRECTORY: directory }: NodeJS.ProcessEnv,
  name: string,
  content: string,
): void {
  process.stderr.write(`${name}: ${content}\n`)
  if (directory === undefined) return
  writeFileSync(path.join(directory, `.${name}`), content)
  renameSync(path.join(directory, `.${name}`), path.join(directory, name))
}
