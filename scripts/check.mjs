// The checks that fail the build: style, types, the arrows between packages, generated files.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { root, workspaces } from './workspaces.mjs'

const bin = (name) => path.join(root, 'node_modules/.bin', name)

/** Not those of this folder: they may use all packages. */
const FOLDERS = [...new Set(workspaces().map(({ folder }) => folder.split('/')[0]))].filter(
  (folder) => folder !== 'scripts',
)

const LINE = 100

/** The second check of types takes a fifth of the time of the first. */
const incremental = (name) => [
  '--incremental',
  '--tsBuildInfoFile',
  `node_modules/.cache/${name}.tsbuildinfo`,
]

const CHECKS = [
  ['style', () => run(bin('biome'), ['check', '--error-on-warnings', '.'])],
  ['types', () => run(bin('tsc'), ['--noEmit', ...incremental('types')])],
  [
    'types of the page in browsers',
    () => run(bin('tsc'), ['--noEmit', '--project', 'ui/src/page', ...incremental('page-types')]),
  ],
  [
    'arrows between packages',
    () => run(bin('depcruise'), ['--config', '.dependency-cruiser.mjs', ...FOLDERS]),
  ],
  [
    'generated code',
    () =>
      isWritten('proto/src/generated', 'npm run generate -w proto', (folder) =>
        run(bin('buf'), ['generate', '--output', folder], path.join(root, 'proto')),
      ),
  ],
  ['docs from the code', () => run(process.execPath, ['scripts/docs.mjs', '--check'])],
  [
    'reference of the SDK',
    () =>
      isWritten('docs/reference', 'node scripts/reference.mjs', (folder) =>
        run(process.execPath, ['scripts/reference.mjs', path.join(folder, 'docs/reference')]),
      ),
  ],
  [
    'licences, notices and bills of materials',
    () => run(process.execPath, ['scripts/shipped.mjs', '--check']),
  ],
  [`lines of at most ${LINE} characters`, longLines],
  ['tags of tests', tags],
  ['native addon', () => run(process.execPath, ['scripts/build-addon.mjs', '--check'])],
]

let failed = 0
for (const [name, check] of CHECKS) {
  const problem = check()
  if (problem === undefined) continue
  failed++
  process.stderr.write(`check failed: ${name}\n${problem}\n`)
}
process.stderr.write(`${CHECKS.length - failed} of ${CHECKS.length} checks passed\n`)
process.exit(failed > 0 ? 1 : 0)

/** What the command printed if it failed. */
function run(command, args, cwd = root) {
  const result = spawnSync(command, args, { cwd, encoding: 'utf8' })
  return result.status === 0 ? undefined : `${result.stdout}${result.stderr}${result.error ?? ''}`
}

/** Each tag of a test's title has its line in docs/behaviours.md, and each line has a test. */
function tags() {
  const page = readFileSync(path.join(root, 'docs/behaviours.md'), 'utf8')
  const known = new Set([...page.matchAll(/^\| ([A-Z]\d+) \|/gm)].map(([, tag]) => tag))
  const tests = spawnSync('git', ['ls-files', '*.test.ts', '*.test.mjs', '*.contract.ts'], {
    cwd: root,
    encoding: 'utf8',
  })
  const used = new Set()
  for (const file of tests.stdout.trim().split('\n')) {
    const text = readFileSync(path.join(root, file), 'utf8')
    for (const [, front] of text.matchAll(/['"`]((?:(?:R\d{1,3}|[ACDWH]\d{1,2}) )+)/g))
      for (const tag of front.trim().split(' ')) used.add(tag)
  }
  const problems = [
    ...[...used].filter((tag) => !known.has(tag)).map((tag) => `${tag}: no line in the page`),
    ...[...known].filter((tag) => !used.has(tag)).map((tag) => `${tag}: no test`),
  ]
  return problems.length === 0 ? undefined : `docs/behaviours.md: ${problems.join(', ')}\n`
}

/** The formatter breaks code, but no texts, regular expressions and comments. */
function longLines() {
  const { stdout } = spawnSync('git', ['ls-files', '*.ts', '*.tsx', '*.mjs', '*.js'], {
    cwd: root,
    encoding: 'utf8',
  })
  const problems = stdout
    .trimEnd()
    .split('\n')
    .filter((file) => !file.includes('/generated/'))
    .flatMap((file) =>
      readFileSync(path.join(root, file), 'utf8')
        .split('\n')
        .flatMap((line, index) =>
          [...line].length <= LINE || /https?:\/\//.test(line)
            ? []
            : [`${file}:${index + 1}: ${[...line].length} characters`],
        ),
    )
  return problems.length === 0 ? undefined : problems.join('\n')
}

/** Whether a directory is what `write` makes of the sources in the same place of another folder. */
function isWritten(directory, command, write) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'akri-generated-'))
  try {
    const fresh = path.join(folder, directory.replace('proto/', ''))
    const problem = write(folder) ?? run('diff', ['-r', path.join(root, directory), fresh])
    return problem === undefined ? undefined : `${problem}${directory}: run ${command}`
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
