// The blocks of the page for authors, in their order.

/** A block that a reader writes into a file. */
interface FileBlock {
  readonly kind: 'file'
  readonly section: string
  readonly name: string
  readonly code: string
}

/** Commands that a reader types. */
interface CommandBlock {
  readonly kind: 'commands'
  readonly section: string
  readonly commands: readonly Command[]
}

/** Any other block: a test cannot know what a reader does with the block. */
interface OtherBlock {
  readonly kind: 'other'
  readonly section: string
  readonly code: string
}

export type Block = FileBlock | CommandBlock | OtherBlock

/** A command, with the lines that it prints. */
export interface Command {
  readonly text: string
  readonly lines: readonly string[]
}

/** Languages of files. */
const FILES = ['js', 'json', 'yaml', 'dockerfile']

/**
 * A block of the language `console` has commands. A block of another language is a file if the line
 * before begins with the name of the file.
 * @param page its text
 */
export function blocksOf(page: string): readonly Block[] {
  const blocks: Block[] = []
  let section = ''
  let before = ''
  const lines = page.split('\n')[Symbol.iterator]()
  for (const line of lines) {
    section = /^## (.*)$/.exec(line)?.[1] ?? section
    const fence = /^ *(```|~~~)(.*)$/.exec(line)
    if (fence !== null) {
      const code: string[] = []
      for (const text of lines) {
        if (text.trim() === fence[1]) break
        code.push(`${text}\n`)
      }
      blocks.push(blockOf(section, before, fence[2] ?? '', code.join('')))
    }
    before = line
  }
  return blocks
}

function blockOf(section: string, before: string, language: string, code: string): Block {
  if (language === 'console') return { kind: 'commands', section, commands: commandsOf(code) }
  const name = /^`([\w.-]+)`.*:$/.exec(before)?.[1]
  return name === undefined || !FILES.includes(language)
    ? { kind: 'other', section, code }
    : { kind: 'file', section, name, code }
}

function commandsOf(code: string): readonly Command[] {
  return code.split(/^\$ /m).flatMap((step) => {
    const [text = '', ...lines] = step.trimEnd().split('\n')
    return text === '' ? [] : [{ text, lines }]
  })
}
