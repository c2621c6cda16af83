// Writes the parts of docs and chart that come from the code: docs/errors.md, the tables of
// options, the chart's handlers and CRDs. `--check` writes nothing, and fails if something would
// change.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from 'esbuild'
import ts from 'typescript'
import { root, workspaces } from './workspaces.mjs'

const checking = process.argv.includes('--check')
const PACKAGES = workspaces()
  .map(({ folder }) => folder)
  .filter((folder) => !/^(proto|examples|test|bench)\b/.test(folder))
const MEANING = {
  terminal: 'Trying again does not help: mend what the message names.',
  transient: 'It is tried again, with a back-off.',
  bug: 'A mistake in akri.js or in a handler: please report it.',
}

const changed = [
  writeIfOther('docs/errors.md', errorsPage()),
  // A chart reads only files of its own folder.
  writeIfOther(
    'deploy/helm/akri/handlers.json',
    readFileSync(path.join(root, 'handlers/built-in.json'), 'utf8'),
  ),
  ...['configurations.yaml', 'instances.yaml'].map((file) =>
    writeIfOther(
      `deploy/helm/akri/crds/${file}`,
      readFileSync(path.join(root, 'api/crds', file), 'utf8'),
    ),
  ),
]
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
  for (const folder of PACKAGES) {
    for (const file of sources(path.join(root, folder, 'src'))) {
      const source = ts.createSourceFile(
        file,
        readFileSync(file, 'utf8'),
        ts.ScriptTarget.Latest,
        true,
      )
      const visit = (node) => {
        if (ts.isStringLiteral(node) && /^AKRI_ERR_\w+$/.test(node.text)) note(node, folder)
        ts.forEachChild(node, visit)
      }
      visit(source)
    }
  }
  const rows = [...codes]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([code, { kinds, packages, docs }]) => {
      if (docs.size === 0) throw new TypeError(`${code} has no comment that says when it happens`)
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

  function note(node, folder) {
    const call = node.parent
    // A comparison with a code defines no error.
    if (!ts.isCallExpression(call) && !ts.isNewExpression(call)) return
    const entry = codes.get(node.text) ?? { kinds: new Set(), packages: new Set(), docs: new Set() }
    codes.set(node.text, entry)
    entry.packages.add(folder)
    for (const kind of kindsOf(call.arguments?.[1])) entry.kinds.add(kind)
    const owner = ts.findAncestor(node, ts.isClassDeclaration)
    const doc =
      owner?.name?.text.endsWith('Error') &&
      ts
        .getJSDocCommentsAndTags(owner)
        .filter(ts.isJSDoc)
        .map(({ comment }) => ts.getTextOfJSDocComment(comment))
        .join(' ')
    if (doc) entry.docs.add(doc.replace(/\s+/g, ' ').replaceAll('|', '\\|').trim())
  }
}

/**
 * The possible kinds of an expression. A condition compares kinds, and is none; a variable has the
 * kinds of its declaration.
 */
function kindsOf(expression) {
  if (expression === undefined) return []
  if (ts.isStringLiteral(expression)) return expression.text in MEANING ? [expression.text] : []
  if (ts.isConditionalExpression(expression))
    return [...kindsOf(expression.whenTrue), ...kindsOf(expression.whenFalse)]
  if (
    ts.isElementAccessExpression(expression) ||
    ts.isAsExpression(expression) ||
    ts.isSatisfiesExpression(expression)
  )
    return kindsOf(expression.expression)
  if (ts.isObjectLiteralExpression(expression))
    return expression.properties.flatMap(({ initializer }) => kindsOf(initializer))
  if (ts.isIdentifier(expression)) return kindsOf(initializerOf(expression))
  return []
}

/** The value of the nearest variable of this name. */
function initializerOf(identifier) {
  let found
  const visit = (node) => {
    if (ts.isVariableDeclaration(node) && node.name.getText() === identifier.text)
      found ??= node.initializer
    ts.forEachChild(node, visit)
  }
  for (let scope = identifier.parent; scope && found === undefined; scope = scope.parent)
    visit(scope)
  return found
}

function sources(directory) {
  return readdirSync(directory, { withFileTypes: true, recursive: true })
    .filter(
      (entry) => entry.isFile() && entry.name.endsWith('.ts') && !entry.name.endsWith('.test.ts'),
    )
    .map((entry) => path.join(entry.parentPath, entry.name))
    .sort()
}

/**
 * The tables of options, and the variables that the chart passes on; both come from the options'
 * schemas.
 */
async function optionTables() {
  const schemas = await loadSources(
    'agent/src/program/agent-options.ts',
    'cli/src/command-options.ts',
    'controller/src/program/controller-options.ts',
    'runtime/src/program/option-schema.ts',
    'sdk/src/akri-handler-options.ts',
    'webhook/src/program/webhook-options.ts',
  )
  /** @type {[file: string, mark: string, schema: object, component?: string][]} */
  const programs = [
    ['docs/operators.md', 'options of akri-agent', schemas.agentOptions, 'agent'],
    ['docs/brokers.md', 'options of akri-controller', schemas.controllerOptions, 'controller'],
    ['docs/webhook.md', 'options of akri-webhook', schemas.webhookOptions, 'webhookConfiguration'],
    ['docs/handler-authors.md', 'options of akri-handler', schemas.akriHandlerOptions],
    ['docs/standalone.md', 'options of akri run', schemas.runOptions],
    ['docs/standalone.md', 'options of akri discover', schemas.discoverOptions],
  ]
  changed.push(writeChartSchema(programs.filter(([, , , component]) => component !== undefined)))
  return programs.map(([file, mark, schema, component]) => ({
    file,
    mark,
    table: optionTable(schemas.flagOf, schema, component),
  }))
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

/** Writes into the chart's schema which options a component takes by their variables. */
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
  // The formatter decides about lines; only the content counts here.
  const isSame = JSON.stringify(schema) === JSON.stringify(JSON.parse(text))
  return writeIfOther(file, isSame ? text : `${JSON.stringify(schema, undefined, 2)}\n`)
}

/** What these TypeScript files export. */
async function loadSources(...files) {
  const outfile = path.join(root, '.cache/docs-sources.mjs')
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
