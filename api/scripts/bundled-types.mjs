// Writes api/src/generated/bundled-types.ts: the fields of a present Kubernetes, from the models of
// @kubernetes/client-node, which are generated from its OpenAPI. With `--print` it prints
// to standard output instead.
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const home = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const models = path.join(
  path.dirname(
    createRequire(path.join(home, '../kube/package.json')).resolve('@kubernetes/client-node'),
  ),
  'gen/models',
)

/** See src/kubernetes/kubernetes-types.ts. */
const ROOTS = {
  podSpec: 'V1PodSpec',
  jobSpec: 'V1JobSpec',
  deploymentSpec: 'V1DeploymentSpec',
  serviceSpec: 'V1ServiceSpec',
}

/** The models say `string` of a quantity; the API server also takes a number. */
const QUANTITIES = {
  V1PodSpec: ['overhead'],
  V1ResourceRequirements: ['limits', 'requests'],
  V1VolumeResourceRequirements: ['limits', 'requests'],
  V1ResourceFieldSelector: ['divisor'],
  V1EmptyDirVolumeSource: ['sizeLimit'],
}

/** Names of models; the core group's are prefixed where another group has the same. */
const MODEL = /^(Core)?V\d\w+$/

const types = {}
for (const open = Object.values(ROOTS); open.length > 0; ) {
  const name = open.pop()
  if (name in types) continue
  const model = (await import(pathToFileURL(path.join(models, `${name}.js`)).href))[name]
  const required = requiredFields(name)
  const fields = model.getAttributeTypeMap().map(({ name: property, baseName, type, format }) => {
    const text = typeText(type, format, QUANTITIES[name]?.includes(baseName))
    const inner = text.replace(/^(\[\]|\{\})*/, '')
    if (MODEL.test(inner)) open.push(inner)
    return [baseName, required.has(property) ? `${text}!` : text]
  })
  types[name] = Object.fromEntries(fields.sort(([a], [b]) => (a < b ? -1 : 1)))
}

const version = /OpenAPI spec version: (\S+)/.exec(
  readFileSync(path.join(models, 'V1PodSpec.js'), 'utf8'),
)?.[1]
const text = `// Written by scripts/bundled-types.mjs.
import type { KubernetesTypes } from '../kubernetes/kubernetes-types.js'

export const BUNDLED_TYPES: KubernetesTypes = {
  version: ${JSON.stringify(version)},
  roots: ${JSON.stringify(ROOTS)},
  types: {
${Object.keys(types)
  .sort()
  .map((name) => `    ${name}: ${JSON.stringify(types[name])},`)
  .join('\n')}
  },
}
`
if (process.argv.includes('--print')) process.stdout.write(text)
else writeFileSync(path.join(home, 'src/generated/bundled-types.ts'), text)

function typeText(type, format, isQuantity) {
  const list = /^Array<(.*)>$/.exec(type)?.[1]
  if (list !== undefined) return `[]${typeText(list, format, isQuantity)}`
  const map = /^\{ \[key: string\]: (.*); \}$/.exec(type)?.[1]
  if (map !== undefined) return `{}${typeText(map, format, isQuantity)}`
  if (isQuantity) return 'quantity'
  if (type === 'IntOrString') return 'intOrString'
  if (type === 'number') return format === 'double' ? 'number' : format
  if (type === 'Date' || type === 'V1MicroTime') return 'string'
  if (type === 'string' || type === 'boolean' || type === 'any') return type
  if (MODEL.test(type)) return type
  throw new TypeError(`a type that is not known: ${type}`)
}

/** The names of the properties that have no question mark in the declaration. */
function requiredFields(name) {
  const declaration = readFileSync(path.join(models, `${name}.d.ts`), 'utf8')
  return new Set([...declaration.matchAll(/^ {4}'(\w+)': /gm)].map(([, property]) => property))
}
