import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export interface PageFile {
  readonly type: string
  readonly content: Buffer
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
}

/** The pages of the router in the browser: a reload asks for them here. */
const PAGES = /^\/(devices(\/[^/]+\/[^/]+)?|handlers|map|try)?$/

/** The files of the page, all in memory: no address becomes the path of a file. */
export class PageFiles {
  readonly #files = new Map<string, PageFile>()

  /** @param directory with the files that the build writes */
  constructor(directory: URL) {
    const folder = fileURLToPath(directory)
    for (const name of readdirSync(folder)) {
      const type = TYPES[path.extname(name)]
      if (type === undefined) continue
      this.#files.set(`/${name}`, { type, content: readFileSync(path.join(folder, name)) })
    }
  }

  /** @param name the path of an address */
  get(name: string): PageFile | undefined {
    return this.#files.get(PAGES.test(name) ? '/index.html' : name)
  }
}
