import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import type { ProjectNames } from './names.js'

export const LANGUAGES = ['javascript', 'typescript'] as const
export type Language = (typeof LANGUAGES)[number]

/** The content of the files of a project, by their paths. */
export type ProjectFiles = ReadonlyMap<string, string>

/** How the files for all languages name those of a language. */
const SOURCES: Readonly<Record<Language, Readonly<Record<string, string>>>> = {
  javascript: {},
  typescript: { 'handler.js': 'src/handler.ts', 'handler.test.js': 'src/handler.test.ts' },
}

/** Files that mean something to npm where they are: it would not publish them as they are. */
const RENAMED: Readonly<Record<string, string>> = {
  _gitignore: '.gitignore',
  '_package.json': 'package.json',
}

interface TemplateOptions {
  readonly language: Language
  readonly names: ProjectNames
  /** The version of Akri that the project needs. */
  readonly version: string
}

/**
 * Reads the template of a language. It is a complete project with the name `@example/my-sensor`.
 *
 * @param directory of the templates
 */
export async function readTemplate(
  directory: string,
  { language, names, version }: TemplateOptions,
): Promise<ProjectFiles> {
  const sources = SOURCES[language]
  const common = await filesBelow(path.join(directory, 'common'))
  const others = await filesBelow(path.join(directory, language))
  const adapted = (text: string) => renamed(withVersion(text, version), names)
  return new Map([
    ...common.map(([file, text]): [string, string] => [
      RENAMED[file] ?? file,
      adapted(text.replace(/handler(\.test)?\.js\b/g, (name) => sources[name] ?? name)),
    ]),
    ...others.map(([file, text]): [string, string] => [RENAMED[file] ?? file, adapted(text)]),
  ])
}

/** A text of a template with the names of a project. */
export function renamed(text: string, names: ProjectNames): string {
  // At once: the name of the package can contain what is replaced.
  return text.replace(/@example\/my-sensor|my-sensor|MY_SENSOR/g, (found) => {
    if (found === 'MY_SENSOR') return names.prefix
    return found === 'my-sensor' ? names.handler : names.package
  })
}

/** The templates in a clone name the version of some commit. */
function withVersion(text: string, version: string): string {
  return text
    .replace(/("@akrijs\/[a-z-]+": "\^)[^"]*/g, (_, start: string) => `${start}${version}`)
    .replace(/(\/akri-agent:)[0-9.]*/g, (_, start: string) => `${start}${version}`)
}

async function filesBelow(directory: string): Promise<[string, string][]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)))
    // A template that was installed and built in a clone.
    .filter((file) => !/^(node_modules|dist)\//.test(file))
    .sort()
  return Promise.all(
    files.map(
      async (file): Promise<[string, string]> => [
        file,
        await readFile(path.join(directory, file), 'utf8'),
      ],
    ),
  )
}
