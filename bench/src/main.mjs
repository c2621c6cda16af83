// `npm run bench`: each figure with its budget and the ratio to its peer. Fails where a budget is broken.
import * as agentProcess from './agent-process.mjs'
import * as plugToList from './plug-to-list.mjs'
import * as sdkSize from './sdk-size.mjs'
import { printFigures } from './table.mjs'

const figures = []
for (const { measure } of [plugToList, agentProcess, sdkSize]) figures.push(...(await measure()))
process.exit(printFigures(figures) ? 0 : 1)
