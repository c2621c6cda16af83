// A broker that follows one node of the OPC UA server that its container was given. It prints a line of JSON for each value, and
// reports the last one (docs/broker-info.md).
//   OPCUA_DISCOVERY_URL         the server, as the opcua handler gives it
//   OPCUA_SERVER_ADDRESSES      where it is, if its name is one of multicast DNS, as the opcua handler gives it
//   OPCUA_NODE_ID               the node; by default i=2258, the time of the server, which every server has
//   OPCUA_INTERVAL_MS           how often the server looks at it; by default 1000
//   AKRI_BROKER_INFO_DIRECTORY  where to report, as the agent gives it
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
// It takes a second to load, which a mistake above need not wait for.
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
      process.stdout.write(
        `${JSON.stringify({ time, nodeId, status: statusCode.name, value: value?.value ?? null })}\n`,
      )
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

/** A name of multicast DNS means nothing inside a cluster. */
function reachable(given: string, [address = '']: readonly string[]): string {
  const host = address.includes(':') ? `[${address}]` : address
  return address === ''
    ? given
    : given.replace(/^opc\.tcp:\/\/[^/:]+\.local(?=[:/])/i, `opc.tcp://${host}`)
}

/** Under another name first, and renamed: nobody sees it half written. */
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
