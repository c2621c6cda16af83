// A discovery server of node-opcua at port 4840, and a server that ends orderly at SIGUSR1. The
// server is at 4841 with secured endpoints and registered, or at 4842 and announced by multicast
// DNS only. Arguments: the reported address, and `registered` or `announced`, which is printed when
// done.
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import opcua from 'node-opcua'

const [hostname, how] = process.argv.slice(2)
const folder = mkdtempSync(path.join(os.tmpdir(), 'akri-node-opcua-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))

/** Each application needs its own store, or the discovery server refuses it. */
async function certificates(name) {
  const manager = new opcua.OPCUACertificateManager({
    rootFolder: path.join(folder, name),
    automaticallyAcceptUnknownCertificate: true,
  })
  await manager.initialize()
  return manager
}

const discoveryServer = new opcua.OPCUADiscoveryServer({
  port: 4840,
  hostname,
  alternateHostname: hostname,
  serverCertificateManager: await certificates('discovery'),
})
await discoveryServer.start()
const serverCertificateManager = await certificates('server')
const common = {
  hostname,
  alternateHostname: hostname,
  serverCertificateManager,
  userCertificateManager: serverCertificateManager,
}
const registers = {
  port: 4841,
  serverInfo: {
    applicationUri: 'urn:test:registered',
    applicationName: { text: 'Registered' },
    productUri: 'urn:test:node-opcua',
  },
  registerServerMethod: opcua.RegisterServerMethod.LDS,
  discoveryServerEndpointUrl: `opc.tcp://${hostname}:4840`,
}
const announces = {
  port: 4842,
  resourcePath: '/UA/Announced',
  serverInfo: { applicationUri: 'urn:test:announced', applicationName: { text: 'Announced' } },
}
const server = new opcua.OPCUAServer({
  ...common,
  ...(how === 'announced' ? announces : registers),
})
const announcement = new opcua.BonjourHolder()
if (how === 'announced') {
  await server.start()
  // RegisterServerMethod.MDNS of node-opcua 2.182 announces a placeholder as the host.
  const { port, resourcePath: path } = announces
  await announcement.announcedOnMulticastSubnet({
    capabilities: ['DA', 'HD'],
    name: 'Announced',
    path,
    host: hostname,
    port,
  })
} else {
  const registered = new Promise((resolve) => server.once('serverRegistered', resolve))
  await server.start()
  await registered
}
process.stdout.write(`${how}\n`)
process.once('SIGUSR1', async () => {
  if (how === 'announced') await announcement.stopAnnouncedOnMulticastSubnet()
  await server.shutdown(0)
})
process.once('SIGTERM', () => process.exit(0))
