// A broker that follows a node of the OPC UA server of its container. It prints each value as a
// line of JSON, and reports the last value (docs/broker-info.md). Environment variables:
// OPCUA_DISCOVERY_URL: the server, from the opcua handler
// OPCUA_SERVER_ADDRESSES: the addresses of a server with a multicast DNS name, from the handler
// OPCUA_NODE_ID: the node; by default i=2258, the time of the server
// OPCUA_INTERVAL_MS: the sampling interval; by default 1000
// AKRI_BROKER_INFO_DIRECTORY: the directory for the report, from the agent
import { renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const { OPCUA_DISCOVERY_URL: discoveryUrl, OPCUA_SERVER_ADDRESSES: addresses = '' } = process.env
const { OPCUA_NODE_ID: nodeId = 'i=2258', OPCUA_INTERVAL_MS: interval = '1000' } = process.env
const intervalMs = Number(interval)
if (discoveryUrl === undefined || !discoveryUrl.startsWith('opc.tcp://'))
  fail('OPCUA_DISCOVERY_URL is not set to opc.tcp://host:port/path')
if (!Number.isInteger(intervalMs) || intervalMs < 10)
  fail(`OPCUA_INTERVAL_MS is ${interval}; write milliseconds, 10 at least`)

const url = reachable(discoveryUrl, addresses.split(','))

const stop = new AbortController()
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stop.abort())
// Loading takes a second. A wrong option should fail faster.
const { subscribe } = await import('./subscriber.js')

try {
  await subscribe({
    url,
    nodeId,
    intervalMs,
    signal: stop.signal,
    onValue: ({ value, statusCode, sourceTimestamp, serverTimestamp }) => {
      const time = sourceTimestamp ?? serverTimestamp ?? new Date()
      const text = JSON.stringify(value?.value ?? null)
      const line = { time, nodeId, status: statusCode.name, value: value?.value ?? null }
      process.stdout.write(`${JSON.stringify(line)}\n`)
      report('connected', 'yes')
      report('value', text)
      report('time', time.toISOString())
    },
    onLost: () => {
      process.stderr.write(`${url}: there is no connection, trying again\n`)
      report('connected', 'no')
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
