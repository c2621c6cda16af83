#!/usr/bin/env node
// An old Node.js fails at imports of the program: this file looks at the version first. Its syntax
// is that of Node.js 12, without an await at the top level.
import { nodeProblem } from '@akrijs/runtime/node-version'

const problem = nodeProblem(process.versions.node)
if (problem === undefined) void import('./create-handler-program.js')
else {
  process.stderr.write(`create-handler: ${problem}\n`)
  process.exitCode = 1
}
