// `npm run bench`: each figure with its budget and its ratio to the peer. Fails if a figure exceeds
// its budget.
import * as agentProcess from './agent-process.mjs'
import { loadTypeScript } from './load-typescript.mjs'
import * as plugToList from './plug-to-list.mjs'
import * as sdkSize from './sdk-size.mjs'
import { printFigures } from './table.mjs'

const figures = []
const cluster = await loadTypeScript('bench/src/cluster.ts')
const cost = await loadTypeScript('bench/src/cost.ts')
const onvif = await loadTypeScript('bench/src/onvif-cameras.ts')
const opcua = await loadTypeScript('bench/src/opcua.ts')
const opcuaSession = await loadTypeScript('bench/src/opcua-session.ts')
const all = {
  plug: plugToList,
  process: agentProcess,
  sdk: sdkSize,
  onvif,
  opcua,
  'opcua-session': opcuaSession,
  cluster,
  cost,
}
// Arguments select benches by name.
const wanted = process.argv.slice(2)
for (const [name, { measure }] of Object.entries(all)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue
  figures.push(...(await measure()))
}
process.exit(printFigures(figures) ? 0 : 1)
