import { renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Page } from './page.js'
import { CredentialRefusedError, takeSnapshot } from './snapshot.js'

/** The pause after a refused credential; each further pause is twice as long. */
const REFUSED_SECONDS = 60
const LONGEST_REFUSED_SECONDS = 3600

/**
 * Takes pictures of the camera of this container until the signal is aborted. The last picture is
 * served on `SNAPSHOT_PORT`, if set. The camera's Instance shows when the picture was taken, or why
 * there is none.
 * @param wait for tests
 */
export async function run(
  environment: NodeJS.ProcessEnv,
  signal: AbortSignal,
  wait: (ms: number) => Promise<unknown> = (ms) => sleep(ms, undefined, { signal }),
): Promise<void> {
  const {
    ONVIF_DEVICE_SERVICE_URL: url,
    ONVIF_USERNAME: username,
    ONVIF_PASSWORD: password,
    SNAPSHOT_ADDRESS: address,
  } = environment
  if (url === undefined)
    throw new Error(
      'ONVIF_DEVICE_SERVICE_URL is not set: this program runs as the broker of a camera',
    )
  const seconds = numberOf(environment, 'SNAPSHOT_SECONDS', 'a number of seconds') ?? 10
  if (seconds === 0) throw new Error('SNAPSHOT_SECONDS is 0: write a number of seconds')
  const port = numberOf(environment, 'SNAPSHOT_PORT', 'a port, or 0 for a free port')
  const page = port === undefined ? undefined : await Page.open({ port, address, seconds })
  if (page !== undefined) report(environment, 'page', page.url)
  let refusals = 0
  try {
    while (!signal.aborted) {
      let pause = seconds
      try {
        const picture = await takeSnapshot({ url, username, password })
        refusals = 0
        page?.show(picture)
        report(environment, 'snapshot', `${picture.body.length} bytes at ${time()}`)
      } catch (error) {
        // The text can come from a camera: it becomes one line without control characters.
        let reason = String(error instanceof Error ? error.message : error).replace(
          /[\p{C}\p{Z}]+/gu,
          ' ',
        )
        const isRefused = error instanceof CredentialRefusedError
        if (isRefused) {
          const refused = Math.min(REFUSED_SECONDS * 2 ** refusals++, LONGEST_REFUSED_SECONDS)
          pause = Math.max(seconds, refused)
          reason += `; the next try is at ${time(pause)}`
        }
        const text = `none at ${time()}: ${reason}`
        // After other failures the last picture stays.
        if (isRefused || page?.hasPicture === false) page?.tell(text)
        report(environment, 'snapshot', text)
      }
      await wait(pause * 1000).catch(() => {})
    }
  } finally {
    page?.close()
  }
}

/** The value of a variable that is a number from 0; undefined if the variable is not set. */
function numberOf(
  environment: NodeJS.ProcessEnv,
  name: string,
  expected: string,
): number | undefined {
  const text = environment[name]
  if (text === undefined) return undefined
  const number = text.trim() === '' ? Number.NaN : Number(text)
  const isValid = number >= 0 && (name !== 'SNAPSHOT_PORT' || (number < 65_536 && number % 1 === 0))
  if (!isValid) throw new Error(`${name} is ${text}: write ${expected}`)
  return number
}

/** The time in some seconds, such as `2026-11-23T07:00:00Z`. */
function time(inSeconds = 0): string {
  return `${new Date(Date.now() + inSeconds * 1000).toISOString().slice(0, 19)}Z`
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
