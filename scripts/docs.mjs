// Writes the parts of docs and chart that come from the code: docs/errors.md, docs/helm-values.md,
// the tables of options, the handlers, defaults and CRDs of the chart, the JSON Schemas of
// Configurations. `--check` writes nothing, and fails if something would change.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from 'esbuild'
import { load } from 'js-yaml'
import { jsonSchemas } from './json-schemas.mjs'
import { manPage } from './man-page.mjs'
import { root, workspaces } from './workspaces.mjs'

const checking = process.argv.includes('--check')
const PACKAGES = workspaces()
  .map(({ folder }) => folder)
  .filter((folder) => !/^(proto|examples|scripts|test|bench)\b/.test(folder))
const MEANING = {
  terminal: 'Trying again does not help: correct what the message names.',
  transient: 'It is tried again, with a back-off.',
  bug: 'A mistake in akri.js or in a handler: please report it.',
}
/** The class of an error: its comment says when it happens. */
const ERROR = new RegExp(
  [
    String.raw`/\*\*((?:(?!\*/)[^])*)\*/\nexport class \w+ extends `,
    String.raw`(?:defineError\(\s*|AkriError \{(?:(?!\n\})[^])*?super\()`,
    String.raw`'(AKRI_ERR_\w+)',\s*(?:'(\w+)')?`,
  ].join(''),
  'g',
)
/** The kinds of the errors whose constructor derives the kind. */
const KINDS_BY_CAUSE = {
  AKRI_ERR_API: ['terminal', 'transient'],
  AKRI_ERR_DISCOVERY_FAILED: ['terminal', 'transient', 'bug'],
  AKRI_ERR_HANDLER_FAILED: ['transient', 'bug'],
}

const { handlers: HANDLERS } = JSON.parse(
  readFileSync(path.join(root, 'handlers/built-in.json'), 'utf8'),
)
/** The handlers whose values the existing chart has too: their schema is written by hand. */
const OF_EXISTING_CHART = ['udev', 'onvif', 'opcua', 'debugEcho']

const changed = [
  writeIfOther('docs/errors.md', errorsPage()),
  writeIfOther('docs/helm-values.md', valuesPage()),
  // A chart reads only files of its own folder, and its templates only the values that Helm merged.
  writeIfOther(
    'deploy/helm/akri/defaults.yaml',
    readFileSync(path.join(root, 'deploy/helm/akri/values.yaml'), 'utf8'),
  ),
  writeIfOther(
    'deploy/helm/akri/handlers.json',
    readFileSync(path.join(root, 'handlers/built-in.json'), 'utf8'),
  ),
  ...['configurations.yaml', 'instances.yaml', 'nodereports.yaml'].map((file) =>
    writeIfOther(
      `deploy/helm/akri/crds/${file}`,
      readFileSync(path.join(root, 'api/crds', file), 'utf8'),
    ),
  ),
]
const schemas = await schemasOfConfigurations()
for (const [file, text] of Object.entries(schemas))
  changed.push(writeIfOther(`cli/schemas/${file}`, text))
for (const { file, mark, table } of await optionTables())
  changed.push(writeIfOther(file, between(file, mark, table)))
if (checking && changed.includes(true)) {
  process.stderr.write('the docs are not what the code says: run node scripts/docs.mjs\n')
  process.exit(1)
}

/** @returns {boolean} whether the file had another content */
function writeIfOther(file, text) {
  const full = path.join(root, file)
  let before = ''
  try {
    before = readFileSync(full, 'utf8')
  } catch {
    // The file is new.
  }
  if (before === text) return false
  if (checking) process.stderr.write(`${file} is out of date\n`)
  else writeFileSync(full, text)
  return true
}

function errorsPage() {
  /** @type {Map<string, { kinds: Set<string>, packages: Set<string>, docs: Set<string> }>} */
  const codes = new Map()
  for (const folder of PACKAGES)
    for (const text of sources(path.join(root, folder, 'src'))) {
      const found = [...text.matchAll(ERROR)]
      // A comment of `defineError` has an example.
      for (const [, code] of text.matchAll(/^(?! \*).*(?:Error|super)\(\s*'(AKRI_ERR_\w+)'/gm))
        if (!found.some((match) => match[2] === code))
          throw new TypeError(`${code} has no class with a comment that says when it happens`)
      for (const [, comment, code, kind] of found) {
        const kinds = kind === undefined ? KINDS_BY_CAUSE[code] : [kind]
        const entry = codes.get(code) ?? { kinds: new Set(), packages: new Set(), docs: new Set() }
        codes.set(code, entry)
        for (const each of kinds) entry.kinds.add(each)
        entry.packages.add(folder)
        entry.docs.add(
          comment
            .replace(/\s+\*?\s*/g, ' ')
            .replaceAll('|', '\\|')
            .trim(),
        )
      }
    }
  const rows = [...codes]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([code, { kinds, packages, docs }]) => {
      const inOrder = Object.keys(MEANING).filter((kind) => kinds.has(kind))
      return (
        `| \`${code}\` | ${inOrder.join(', ')} | ${[...docs].join(' ')} | ` +
        `${[...packages].join(', ')} |`
      )
    })
  return `# Errors

<!-- Written by scripts/docs.mjs from the code. -->

Every error of akri.js has a code that stays the same, and a kind that says what to do about it.

${Object.entries(MEANING)
  .map(([kind, meaning]) => `- **${kind}**: ${meaning}`)
  .join('\n')}

| Code | Kind | When | Package |
|---|---|---|---|
${rows.join('\n')}
`
}

/** What the values of the existing chart do in ours. */
function valuesPage() {
  const file = 'deploy/helm/akri/existing-values.yaml'
  const meaning = {
    effect: 'effect',
    replaced: 'effect',
    none: 'no-op',
    warning: 'warning',
    refused: 'refused',
  }
  const code = (value) => (value === undefined ? '' : `\`${JSON.stringify(value)}\``)
  const rows = Object.entries(load(readFileSync(path.join(root, file), 'utf8'))).map(
    ([name, { default: standard, as = 'effect', here, why = '' }]) => {
      const ours = here === '' || here === null ? 'the same as if unset' : code(here)
      const told = as === 'replaced' ? `the default there means ${ours} here` : ''
      const note = [told, why].filter((text) => text !== '').join('; ')
      return `| \`${name}\` | ${code(standard)} | ${meaning[as]} | ${note} |`
    },
  )
  return `# Values of the existing chart

<!-- Written by scripts/docs.mjs from ${file}. -->

The chart takes a file of values of the existing chart, and its \`--set\` lines. This table has each
value, with its default there: \`null\` means unset.

| Here | Meaning |
|---|---|
| effect | as there, except for the note |
| no-op | nothing depends on the value |
| warning | the value has no effect, and the notes of Helm say so, unless it is the default |
| refused | the chart fails, unless the value is the default. All refusals come at once |

| Value | Default there | Here | Note |
|---|---|---|---|
${rows.join('\n')}
`
}

/** The texts of the sources of a directory. */
function sources(directory) {
  return readdirSync(directory, { recursive: true })
    .filter((file) => /(?<!\.test)\.ts$/.test(file))
    .sort()
    .map((file) => readFileSync(path.join(directory, file), 'utf8'))
}

/**
 * The tables of options, and the variables that the chart passes on; both come from the options'
 * schemas.
 */
async function optionTables() {
  const options = await loadSources(
    'agent/src/program/agent-options.ts',
    'cli/src/command-options.ts',
    'cli/src/command-texts.ts',
    'controller/src/program/controller-options.ts',
    'runtime/src/program/option-schema.ts',
    'sdk/src/akri-handler-options.ts',
    'webhook/src/program/webhook-options.ts',
  )
  /** @type {[file: string, mark: string, schema: object, component?: string][]} */
  const programs = [
    ['docs/running.md', 'options of akri-agent', options.agentOptions, 'agent'],
    ['docs/brokers.md', 'options of akri-controller', options.controllerOptions, 'controller'],
    ['docs/webhook.md', 'options of akri-webhook', options.webhookOptions, 'webhookConfiguration'],
    ['docs/handler-authors.md', 'options of akri-handler', options.akriHandlerOptions],
    ['docs/standalone.md', 'options of akri run', options.runOptions],
    ['docs/standalone.md', 'options of akri discover', options.discoverOptions],
    ['docs/standalone.md', 'options of akri validate', options.validateOptions],
    ['docs/migration.md', 'options of akri migrate', options.migrateOptions],
    ['docs/ui.md', 'options of akri ui', options.uiOptions],
  ]
  const page = { description: options.PROGRAM_TEXT, flagOf: options.flagOf }
  changed.push(writeIfOther('cli/man/akri.1', manPage(options.COMMANDS, page)))
  changed.push(writeChartSchema(programs.filter(([, , , component]) => component !== undefined)))
  return programs.map(([file, mark, schema, component]) => ({
    file,
    mark,
    table: optionTable(options.flagOf, schema, component),
  }))
}

/** The JSON Schemas that the CLI has for editors. */
async function schemasOfConfigurations() {
  const sources = await loadSources(
    'api/src/generated/bundled-types.ts',
    ...HANDLERS.map(({ folder }) => `${folder}/src/details.ts`),
  )
  const withExamples = HANDLERS.map(({ name, folder }) => {
    const file = path.join(root, `deploy/manifests/examples/${path.basename(folder)}.yaml`)
    const example = load(readFileSync(file, 'utf8')).spec.discoveryHandler.discoveryDetails
    return [name, { details: sources[`${name}Details`], example }]
  })
  return jsonSchemas({
    crd: readFileSync(path.join(root, 'api/crds/configurations.yaml'), 'utf8'),
    types: sources.BUNDLED_TYPES,
    handlers: Object.fromEntries(withExamples),
  })
}

function optionTable(flagOf, schema, component) {
  const rows = Object.entries(schema).map(
    ([name, { meaning, variable, choices, chart, ...spec }]) => {
      const standard = spec.defaultText ?? (spec.default === false ? '' : (spec.default ?? ''))
      const value = chart === 'env' ? `${component}.env.${variable}` : chart
      return [
        `\`${flagOf(name, spec)}\``,
        variable === undefined ? '' : `\`${variable}\``,
        ...(component === undefined ? [] : [value === undefined ? '' : `\`${value}\``]),
        String(standard),
        choices === undefined ? meaning : `${meaning}: ${choices.join(', ')}`,
      ]
    },
  )
  const head = [
    'Flag',
    'Environment',
    ...(component === undefined ? [] : ['Chart']),
    'Default',
    'Meaning',
  ]
  return [head, head.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n')
}

/**
 * Writes into the chart's schema which options a component takes by their variables, and the values
 * of the handlers that the existing chart does not have.
 */
function writeChartSchema(programs) {
  const file = 'deploy/helm/akri/values.schema.json'
  const text = readFileSync(path.join(root, file), 'utf8')
  const schema = JSON.parse(text)
  for (const [, , options, component] of programs) {
    schema.properties[component].properties.env.properties = Object.fromEntries(
      Object.values(options)
        .filter(({ chart }) => chart === 'env')
        .map(({ variable }) => [variable, { $ref: '#/definitions/scalar' }])
        .sort(([a], [b]) => (a < b ? -1 : 1)),
    )
  }
  for (const { name } of HANDLERS.filter((handler) => !OF_EXISTING_CHART.includes(handler.name))) {
    const isOurs = ([, inner]) => inner.$ref !== '#/definitions/existing'
    const { discovery, configuration } = schema.properties.onvif.properties
    const properties = Object.fromEntries(Object.entries(discovery.properties).filter(isOurs))
    const details = chartDetails(JSON.parse(schemas[`${name}-details.json`]))
    schema.properties[name] = {
      ...schema.properties.onvif,
      properties: {
        discovery: { ...discovery, properties },
        configuration: {
          ...configuration,
          properties: { ...configuration.properties, discoveryDetails: details },
        },
      },
    }
  }
  // The formatter decides about lines; only the content counts here.
  const isSame = JSON.stringify(schema) === JSON.stringify(JSON.parse(text))
  return writeIfOther(file, isSame ? text : `${JSON.stringify(schema, undefined, 2)}\n`)
}

/** The schema of details among the values of the chart, where each field may be unset. */
function chartDetails({ $schema, $id, title, description, default: _, required, ...schema }) {
  const { anyOf, properties, type, ...rest } = schema
  // Zod writes so that a field may be null.
  if (anyOf !== undefined) return chartDetails(anyOf.find((each) => each.type !== 'null'))
  const { additionalProperties: inner } = rest
  if (typeof inner === 'object')
    return { type: ['object', 'null'], additionalProperties: chartDetails(inner) }
  if (properties === undefined)
    return type === undefined || 'enum' in rest ? schema : { ...rest, type: [type, 'null'] }
  if (Object.keys(properties).sort().join() === 'action,items')
    return { $ref: '#/definitions/filter' }
  return {
    type: ['object', 'null'],
    ...rest,
    properties: Object.fromEntries(
      Object.entries(properties).map(([name, inner]) => [name, chartDetails(inner)]),
    ),
  }
}

/** What these TypeScript files export. */
async function loadSources(...files) {
  // Node.js imports a file once.
  const outfile = path.join(root, `.cache/docs-${path.basename(files[0], '.ts')}.mjs`)
  await build({
    stdin: {
      contents: files.map((file) => `export * from './${file}'`).join('\n'),
      resolveDir: root,
    },
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    conditions: ['akri-source'],
    // CommonJS in the bundle requires Node's modules at run time.
    banner: {
      js:
        "import { createRequire } from 'node:module'; " +
        'const require = createRequire(import.meta.url)',
    },
  })
  return import(pathToFileURL(outfile).href)
}

function between(file, mark, table) {
  const text = readFileSync(path.join(root, file), 'utf8')
  const [begin, end] = [`<!-- ${mark} -->`, `<!-- end of ${mark} -->`]
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  if (from < 0 || to < from)
    throw new TypeError(`${file} has no place for the ${mark}: ${begin} … ${end}`)
  return `${text.slice(0, from + begin.length)}\n${table}\n${text.slice(to)}`
}
