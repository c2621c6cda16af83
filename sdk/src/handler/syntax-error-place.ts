import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** The first line of an error that Node.js prints: `/opt/sensor.js:3`. */
const PLACE = /^(file:\/\/)?\/.*:\d+$/
const LIMIT_MS = 10_000
/** The places of modules: Node.js keeps a module that it could not read. */
const places = new Map<string, Promise<string[] | undefined>>()
/** `akri discover --watch` loads a module again after each edit. */
const MAX_PLACES = 100
/** The mark is in one of the first lines. */
const MAX_LINES = 10

/**
 * Finds the place of a SyntaxError in a module, or in one that it imports: only a process that
 * Node.js ends for the error prints the place.
 * @returns the file and its line, the code there, and a mark below the code
 */
export function syntaxErrorPlace(url: string): Promise<string[] | undefined> {
  const known = places.get(url)
  if (known !== undefined) return known
  if (places.size >= MAX_PLACES) places.clear()
  const place = find(url)
  places.set(url, place)
  return place
}

function pathOf(place: string): string {
  const [, url = place, line = ''] = /^(.*):(\d+)$/.exec(place) ?? []
  return url.startsWith('file:') ? `${fileURLToPath(url)}:${line}` : place
}

/**
 * The place of a syntax error, the code there, and the mark below the code: of the lines that
 * Node.js prints. Of TypeScript, other lines of code stand around these.
 * @returns undefined if the lines do not begin with a place
 */
export function excerptOf(lines: readonly string[]): string[] | undefined {
  const [place = '', ...others] = lines
  if (!PLACE.test(place)) return undefined
  const mark = others.slice(0, MAX_LINES).findIndex((line) => /^\s*\^+\s*$/.test(line))
  return [pathOf(place), ...others.slice(Math.max(0, mark - 1), mark < 0 ? 1 : mark + 1)]
}

function find(url: string): Promise<string[] | undefined> {
  // All modules are read before the first of them runs, and the first ends the process: no code of
  // the module runs.
  const end = `data:text/javascript,${encodeURIComponent('process.exit(0)')}`
  const code = [end, url].map((module) => `import ${JSON.stringify(module)}`).join('\n')
  const args = ['--no-warnings', '--input-type=module', '--eval', code]
  return new Promise((resolve) => {
    const { PATH, NODE_OPTIONS } = process.env
    const options = {
      env: { PATH, NODE_OPTIONS },
      timeout: LIMIT_MS,
      killSignal: 'SIGKILL',
    } as const
    execFile(process.execPath, args, options, (_error, _stdout, stderr) => {
      resolve(excerptOf(stderr.split('\n')))
    })
  })
}
