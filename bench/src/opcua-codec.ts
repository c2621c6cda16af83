// A process that sends the requests of node-opcua's client to one OPC UA server, by our codec: for
// its memory.
import { callService } from '../../handlers/opcua/src/ua-tcp/client.js'
import { findServers, getEndpoints } from '../../handlers/opcua/src/ua-tcp/discovery-services.js'

const url = process.argv[2] ?? ''
const { hostname, port } = new URL(url)
const target = { addresses: [hostname], port: Number(port), endpointUrl: url }
const { signal } = new AbortController()
const servers = await callService(findServers, target, { signal })
const endpoints = await callService(getEndpoints, target, { signal })
process.stdout.write(`${servers.length} ${endpoints.length} ${process.memoryUsage.rss()}\n`)
