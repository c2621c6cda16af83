#!/usr/bin/env node
// An old Node.js fails at imports of the program: this file looks at the version first.
import { nodeProblem } from '@akrijs/runtime/node-version'

const problem = nodeProblem(process.versions.node)
if (problem === undefined) await import('./akri-program.js')
else {
  process.stderr.write(`akri: ${problem}\n`)
  process.exitCode = 1
}
