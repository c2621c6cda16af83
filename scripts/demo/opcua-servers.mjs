// Two OPC UA servers of node-opcua, whose values change. Arguments: title, the file for the
// Configuration that finds the servers, and their ports.
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { root } from '../workspaces.mjs'
import { ready, usablePort } from './device.mjs'

const [title, configuration, ...ports] = process.argv.slice(2)
process.title = title
const { default: opcua } = await import('node-opcua')
const { MessageSecurityMode, OPCUACertificateManager, OPCUAServer, SecurityPolicy } = opcua
// The library prints to the terminal.
for (const setLogger of [opcua.setDebugLogger, opcua.setWarningLogger, opcua.setErrorLogger])
  setLogger(() => {})

/** By the URL in examples/demo, which is replaced by that of the server. */
const SERVERS = new Map([
  ['opc.tcp://127.0.0.1:48410/', { name: 'Press', least: 60, spread: 15 }],
  ['opc.tcp://127.0.0.1:48411/', { name: 'Oven', least: 180, spread: 40 }],
])

const servers = []
const devices = {}
let text = readFileSync(path.join(root, 'examples/demo/opcua-servers.yaml'), 'utf8')
for (const [url, machine] of SERVERS) {
  const server = await startServer(machine, await usablePort(Number(ports[servers.length])))
  servers.push(server)
  devices[machine.name] = { port: Number(new URL(server.getEndpointUrl()).port) }
  text = text.replace(url, `${server.getEndpointUrl()}/`)
}
writeFileSync(configuration, text)
ready(devices, async () => {
  await Promise.all(servers.map((server) => server.shutdown(0)))
})

async function startServer({ name, least, spread }, port) {
  // Kept for the next demo: the creation of a key takes longer than all the rest. Not in the clone,
  // which other users may use.
  const certificates = path.join(path.dirname(configuration), name.toLowerCase())
  const server = new OPCUAServer({
    host: '127.0.0.1',
    hostname: '127.0.0.1',
    port,
    serverInfo: {
      applicationUri: `urn:akri:demo:${name.toLowerCase()}`,
      productUri: 'urn:akri:demo',
      applicationName: { text: name },
    },
    securityPolicies: [SecurityPolicy.None],
    securityModes: [MessageSecurityMode.None],
    serverCertificateManager: new OPCUACertificateManager({
      rootFolder: path.join(certificates, 'server'),
    }),
    userCertificateManager: new OPCUACertificateManager({
      rootFolder: path.join(certificates, 'users'),
    }),
  })
  await server.initialize()
  const namespace = server.engine.addressSpace.getOwnNamespace()
  const machine = namespace.addObject({
    browseName: name,
    organizedBy: server.engine.addressSpace.rootFolder.objects,
  })
  namespace.addAnalogDataItem({
    browseName: 'Temperature',
    nodeId: 's=Temperature',
    componentOf: machine,
    dataType: 'Double',
    engineeringUnitsRange: { low: 0, high: 500 },
    engineeringUnits: opcua.standardUnits.degree_celsius,
    minimumSamplingInterval: 1000,
    value: {
      get: () => new opcua.Variant({ dataType: 'Double', value: temperature(least, spread) }),
    },
  })
  await server.start()
  return server
}

/** Rises and falls once a minute. */
function temperature(least, spread) {
  const turn = (Date.now() / 60_000) * 2 * Math.PI
  return Math.round((least + (spread * (1 + Math.sin(turn))) / 2) * 10) / 10
}
