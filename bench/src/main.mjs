// `npm run bench`: each figure with its budget and its ratio to the peer. Fails if a figure exceeds
// its budget.
import * as handlerProcesses from './handler-processes.mjs'
import { loadTypeScript } from './load-typescript.mjs'
import * as plugToList from './plug-to-list.mjs'
import * as sdkSize from './sdk-size.mjs'
import { printFigures } from './table.mjs'

const figures = []
const cluster = await loadTypeScript('bench/src/cluster.ts')
const cost = await loadTypeScript('bench/src/cost.ts')
const devices = await loadTypeScript('bench/src/devices.ts')
const growth = await loadTypeScript('bench/src/growth.ts')
const onvif = await loadTypeScript('bench/src/onvif-cameras.ts')
const opcua = await loadTypeScript('bench/src/opcua.ts')
const opcuaSession = await loadTypeScript('bench/src/opcua-session.ts')
const plugToNode = await loadTypeScript('bench/src/plug-to-node.ts')
const simulation = await loadTypeScript('bench/src/simulation.ts')
const ui = await loadTypeScript('bench/src/ui.ts')
const all = {
  plug: {
    measure: async () => [...(await plugToList.measure()), ...(await plugToNode.measure())],
  },
  handlers: handlerProcesses,
  sdk: sdkSize,
  onvif,
  opcua,
  'opcua-session': opcuaSession,
  cluster,
  cost,
  growth,
  devices,
  simulation,
  ui,
}
// Arguments select benches by name.
const wanted = process.argv.slice(2)
for (const [name, { measure }] of Object.entries(all)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue
  figures.push(...(await measure()))
}
process.exit(printFigures(figures) ? 0 : 1)
