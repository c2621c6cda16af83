// Writes docs/reference, or the directory of the argument, from the types of @akrijs/sdk. Fails if
// an export of the SDK is not documented: a comment for each member, a default for each optional
// member, the unit of each time, a name for each parameter, and an example for each function and
// class.
import path from 'node:path'
import { Application, ReflectionKind } from 'typedoc'
import { root } from './workspaces.mjs'

const app = await Application.bootstrapWithPlugins({
  options: path.join(root, 'sdk/typedoc.json'),
  logLevel: 'Warn',
})
const project = await app.convert()
if (project === undefined) process.exit(1)
app.validate(project)
for (const problem of undocumented(project)) app.logger.error(problem)
if (app.logger.hasWarnings() || app.logger.hasErrors()) process.exit(1)
const folder = process.argv[2] ?? path.join(root, 'docs/reference')
await app.outputs.writeOutput({ name: 'markdown', path: folder }, project)

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
