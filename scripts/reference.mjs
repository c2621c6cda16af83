// Writes docs/reference from the types of @akrijs/sdk. `--check` writes nothing, and fails if
// something would change. Fails if an export of the SDK is not documented: a comment for each
// member, a default for each optional member, the unit of each time, a name for each parameter, and
// an example for each function and class.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Application, ReflectionKind } from 'typedoc'
import { root } from './workspaces.mjs'

const PAGES = path.join(root, 'docs/reference')
const checking = process.argv.includes('--check')

const app = await Application.bootstrapWithPlugins({
  options: path.join(root, 'sdk/typedoc.json'),
  logLevel: 'Warn',
})
const project = await app.convert()
if (project === undefined) process.exit(1)
app.validate(project)
for (const problem of undocumented(project)) app.logger.error(problem)
if (app.logger.hasWarnings() || app.logger.hasErrors()) process.exit(1)
if (!checking) await write(PAGES)
else if (!(await isWritten())) {
  process.stderr.write('docs/reference is out of date: run node scripts/reference.mjs\n')
  process.exit(1)
}

async function write(folder) {
  await app.outputs.writeOutput({ name: 'markdown', path: folder }, project)
}

async function isWritten() {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'akri-reference-'))
  try {
    await write(folder)
    return JSON.stringify(pagesOf(folder)) === JSON.stringify(pagesOf(PAGES))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function pagesOf(folder) {
  return readdirSync(folder)
    .sort()
    .map((name) => [name, readFileSync(path.join(folder, name), 'utf8')])
}

/** What the exports lack besides comments: see the head of this file. */
function undocumented(project) {
  return [...withoutExample(project), ...undocumentedMembers(project)]
}

/** Functions and classes without an example. An error is thrown by a function that has one. */
function withoutExample(project) {
  const shown = project.getReflectionsByKind(ReflectionKind.CallSignature | ReflectionKind.Class)
  return shown
    .filter(({ parent }) => parent?.kindOf(ReflectionKind.Function | ReflectionKind.Module))
    .filter(({ name }) => !name.endsWith('Error') || name === 'AkriError')
    .filter(({ comment }) => comment?.getTag('@example') === undefined)
    .map((one) => `${one.getFullName()} has no example: write a few lines after @example`)
}

/** Optional members without a default, times without a unit, parameters without a name. */
function undocumentedMembers(project) {
  const members = project.getReflectionsByKind(ReflectionKind.Property | ReflectionKind.Parameter)
  return members.flatMap((member) => {
    const { comment } = member
    const text = (comment?.summary ?? []).map((part) => part.text).join('')
    const hasDefault =
      member.defaultValue !== undefined || comment?.getTag('@default') !== undefined
    return [
      ...(member.name === '__namedParameters'
        ? [`${member.getFullName()} has no name: write @param options`]
        : []),
      ...(member.kindOf(ReflectionKind.Property) && member.flags.isOptional && !hasDefault
        ? [`${member.getFullName()} is optional: write what holds without it after @default`]
        : []),
      ...(/^ms$|Ms$/.test(member.name) && !/millisecond/.test(text)
        ? [`${member.getFullName()} is a time: write its unit, milliseconds`]
        : []),
    ]
  })
}
