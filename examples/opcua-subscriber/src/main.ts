// A broker that follows a node of the OPC UA server of its container. It prints each value as a
// line of JSON, and reports the last value (docs/brokers.md). Environment variables:
// OPCUA_DISCOVERY_URL: the server, from the opcua handler
// OPCUA_SERVER_ADDRESSES: the addresses of a server with a multicast DNS name, from the handler
// OPCUA_NODE_ID: the node; by default i=2258, the time of the server
// OPCUA_INTERVAL_MS: the sampling interval; by default 1000
// OPCUA_SILENCE_SECONDS: the longest time without a message; by default 30
// AKRI_BROKER_INFO_DIRECTORY: the directory for the report, from the agent
import { renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { nodeIdProblem } from './node-id.js'

const { OPCUA_DISCOVERY_URL: discoveryUrl, OPCUA_SERVER_ADDRESSES: addresses = '' } = process.env
const { OPCUA_NODE_ID: nodeId = 'i=2258', OPCUA_INTERVAL_MS: interval = '1000' } = process.env
const { OPCUA_SILENCE_SECONDS: silence = '30' } = process.env
const intervalMs = Number(interval)
const silenceMs = Number(silence) * 1000
if (discoveryUrl === undefined || !discoveryUrl.startsWith('opc.tcp://'))
  fail('OPCUA_DISCOVERY_URL is not set to opc.tcp://host:port/path')
if (!Number.isInteger(intervalMs) || intervalMs < 10)
  fail(`OPCUA_INTERVAL_MS is ${interval}; write milliseconds, 10 at least`)
if (!(silenceMs >= 1000 && silenceMs <= 86_400_000))
  fail(`OPCUA_SILENCE_SECONDS is ${silence}; write seconds from 1 to 86400`)
const problem = nodeIdProblem(nodeId)
if (problem !== undefined) fail(`OPCUA_NODE_ID: ${problem}`)

/** The agent reports no longer file (docs/broker-info.md). */
const MAX_REPORT_BYTES = 4096

const url = reachable(discoveryUrl, addresses.split(','))

const stop = new AbortController()
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stop.abort())
// Loading takes a second. A wrong option should fail faster.
const { subscribe } = await import('./subscriber.js')
const { jsonOf, jsonTime } = await import('./value-json.js')

let lost = ''
try {
  await subscribe({
    url,
    nodeId,
    intervalMs,
    silenceMs,
    signal: stop.signal,
    onValue: ({ value, statusCode, sourceTimestamp, serverTimestamp }) => {
      lost = ''
      const time = jsonTime(sourceTimestamp ?? serverTimestamp ?? new Date())
      const { type, ...json } = jsonOf(value)
      const line = { time, nodeId, status: statusCode.name, type, ...json }
      process.stdout.write(`${JSON.stringify(line)}\n`)
      const text = JSON.stringify(json.value)
      report('connected', 'yes')
      report('status', statusCode.name)
      report('value', Buffer.byteLength(text) > MAX_REPORT_BYTES ? 'too long: see the log' : text)
      report('time', time)
    },
    onLost: (reason) => {
      // The text can come from a server: it becomes one line without control characters.
      const text = reason.replace(/[\p{C}\p{Z}]+/gu, ' ').slice(0, 300)
      if (text !== lost) process.stderr.write(`${url}: there is no connection: ${text}\n`)
      lost = text
      report('connected', `no: ${text}`)
    },
  })
} catch (error) {
  fail(`${url}: ${error instanceof Error ? error.message : String(error)}`)
}

/** A Pod cannot resolve a name of multicast DNS. */
function reachable(announced: string, [address = '']: readonly string[]): string {
  const host = address.includes(':') ? `[${address}]` : address
  return address === ''
    ? announced
    : announced.replace(/^opc\.tcp:\/\/[^/:]+\.local(?=[:/])/i, `opc.tcp://${host}`)
}

/** Writes a temporary file and renames it, so that a reader never sees a partial file. */
function report(name: string, content: string): void {
  const directory = process.env.AKRI_BROKER_INFO_DIRECTORY
  if (directory === undefined) return
  writeFileSync(path.join(directory, `.${name}`), content)
  renameSync(path.join(directory, `.${name}`), path.join(directory, name))
}

function fail(message: string): never {
  process.stderr.write(`${message}\n`)
  process.exit(1)
}
