import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { listText } from '../../cli/src/view/list-text.js'
import builtIn from '../../handlers/built-in.json' with { type: 'json' }

const root = path.join(import.meta.dirname, '../..')
const HANDLERS = builtIn.handlers
  .map(({ folder }) => path.basename(folder))
  .filter((name) => name !== 'debug-echo')

/** The part of a page that explains an empty list. */
function explanation(handler: string): string {
  const page = readFileSync(path.join(root, `docs/handlers/${handler}.md`), 'utf8')
  return page.split(/^## /m).find((part) => part.startsWith('Nothing is found\n')) ?? ''
}

/** What `akri discover` prints in the examples. */
const outputs = (handler: string) =>
  [...explanation(handler).matchAll(/^```\n(?:\$ .*\n)?(nothing found\n.*?)\n```$/gms)].map(
    ([, output = '']) => output,
  )

/** Texts in code in the first column of tables; `…` stands for the rest of a text. */
function quoted(handler: string): string[] {
  const rows = explanation(handler).match(/^\| (?!It prints|Reason).*$/gm) ?? []
  return rows.flatMap((row) =>
    [...(row.split(' | ')[0] ?? '').matchAll(/`([^`]+)`/g)].map(([, text = '']) => text),
  )
}

/** Stands for an expression in a template, or for what a page leaves out. */
const ANY = '…'

/** The texts in the code of a handler and of what it uses for searches. */
function codeTexts(handler: string): string[] {
  const texts: string[] = []
  const textOf = (node: ts.Node): string => {
    if (ts.isStringLiteral(node)) return node.text
    if (ts.isBinaryExpression(node)) return textOf(node.left) + textOf(node.right)
    if (!ts.isTemplateExpression(node)) return ANY
    return [node.head, ...node.templateSpans.map(({ literal }) => literal)]
      .map(({ text }) => text)
      .join(ANY)
  }
  const visit = (node: ts.Node): void => {
    const text = textOf(node)
    // A template of few letters would match anything.
    if (text.replaceAll(ANY, '').length > 8 || !text.includes(ANY)) texts.push(text)
    ts.forEachChild(node, visit)
  }
  for (const folder of [`handlers/${handler}/src`, 'sdk/src/network'])
    for (const name of readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' }))
      if (name.endsWith('.ts') && !/\.test\.ts$|testing\//.test(name)) {
        const file = path.join(root, folder, name)
        visit(ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true))
      }
  return texts
}

/** Texts that code makes of other parts. */
const OF_PARTS = [/^HTTP status (401|403)$/, /^(ATTRS?|ENV|TAG)\S* is (absent|".+)$/]

/** Whether a text of a page can be one of the code. */
function isOf(code: string, text: string): boolean {
  if (text.endsWith(ANY) && code.startsWith(text.slice(0, -1))) return true
  const parts = code.split(ANY).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${parts.join('.+')}$`, 's').test(text)
}

/** The list that an output stands for, by the columns of its table. */
function listOf(output: string): Parameters<typeof listText>[0] {
  const lines = output.split('\n').slice(2)
  const header = lines.findIndex((line) => /^ID +REASON +DETAIL$/.test(line))
  const [reason, detail] = ['REASON', 'DETAIL'].map((name) => lines[header]?.indexOf(name) ?? 0)
  const devices = (header < 0 ? [] : lines.slice(header + 1)).map((line) => ({
    id: line.slice(0, reason).trim(),
    reason: line.slice(reason, detail).trim(),
    detail: line.slice(detail),
  }))
  const reasons = new Map<string, number>()
  for (const { reason: of } of devices) reasons.set(of, (reasons.get(of) ?? 0) + 1)
  const none = { devices: [], reasons: new Map() }
  const remarks = header < 0 ? lines : []
  return { devices: [], problems: none, leftOut: { devices, reasons }, remarks }
}

describe.each(HANDLERS)('the page of the handler %s', (handler) => {
  it('begins its part "Nothing is found" with the command, and has its output', () => {
    expect(explanation(handler)).toMatch(
      new RegExp(`^Nothing is found\n\n?[^#|]*akri discover ${handler}[^#|]*\nnothing found\n`),
    )
    const all = outputs(handler)
    expect(all.length).toBeGreaterThan(0)
    for (const output of all) expect(listText(listOf(output), 'text')).toBe(output)
  })

  it('quotes texts that the program prints', () => {
    const code = codeTexts(handler)
    const isPrinted = (text: string) =>
      OF_PARTS.some((pattern) => pattern.test(text)) || code.some((one) => isOf(one, text))
    const inOutputs = outputs(handler).flatMap((output) => {
      const { leftOut, remarks } = listOf(output)
      return [...leftOut.reasons.keys(), ...remarks]
    })
    const texts = quoted(handler)
    expect(texts.length).toBeGreaterThan(4)
    expect([...texts, ...inOutputs].filter((text) => !isPrinted(text))).toEqual([])
  })
})
