import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { AuthorReader, BLOCKS, NOT_RUN, OF_REGISTRY } from './author-reader.js'

it('R67 each block of the page for authors is a file, or commands that a test runs', () => {
  expect(BLOCKS.filter(({ kind }) => kind === 'other')).toEqual([])
  const commands = BLOCKS.flatMap((block) => (block.kind === 'commands' ? block.commands : []))
  expect(commands.length).toBeGreaterThan(40)
  const texts = commands.map(({ text }) => text)
  expect(texts).toEqual(expect.arrayContaining([...NOT_RUN.keys()]))
  const sections = BLOCKS.map(({ section }) => section)
  expect(sections).toEqual(expect.arrayContaining(OF_REGISTRY))
})

const TESTS = [
  'handler.test.js',
  'heartbeats.test.js',
  'web-devices.test.js',
  'hub.test.js',
  'locks.test.js',
]

it('R67 each test of the page for authors runs with its handler', () => {
  const files = BLOCKS.flatMap((block) => (block.kind === 'file' ? block.name : []))
  const tests = files.filter((file) => file.endsWith('.test.js'))
  expect(tests).toEqual(TESTS)
  expect(files).toEqual(
    expect.arrayContaining(tests.map((name) => name.replace('.test.js', '.js'))),
  )
  const commands = BLOCKS.flatMap((block) => (block.kind === 'commands' ? block.commands : []))
  expect(commands.map(({ text }) => text)).toEqual(
    expect.arrayContaining(tests.map((name) => `node --test ${name}`)),
  )
})

it('R67 the commands of the page for authors print what the page shows', async () => {
  const reader = await AuthorReader.begin()
  onTestFinished(() => reader.close())
  await reader.follow(BLOCKS.filter(({ section }) => !OF_REGISTRY.includes(section)))
}, 600_000)

it('R67 a test of the page for authors ends if an assertion fails', async () => {
  const reader = await AuthorReader.begin()
  onTestFinished(() => reader.close())
  const install = { text: 'npm install @akrijs/sdk zod', lines: [] }
  await reader.follow([{ kind: 'commands', section: '', commands: [install] }])
  await reader.follow(BLOCKS.filter(({ kind }) => kind === 'file'))
  for (const name of TESTS) {
    const file = path.join(reader.directory, name)
    const failing = (await readFile(file, 'utf8')).replace(/\bassert\.\w+\(/g, 'assert.fail(')
    await writeFile(file, failing)
    expect(await reader.run(`node --test ${name}`)).toEqual([1, expect.stringMatching(/ pass 0$/m)])
  }
}, 600_000)
