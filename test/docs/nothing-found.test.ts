import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { MulticastSearch } from '@akrijs/sdk/network'
import { ManualClock } from '@akrijs/sdk/testing'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { listText } from '../../cli/src/view/list-text.js'
import { unanswered } from '../../handlers/onvif/src/discovery/left-out-cameras.js'
import { OnvifReplyError } from '../../handlers/onvif/src/errors.js'
import { ClosestDevices } from '../../handlers/udev/src/closest-devices.js'
import { parseRule } from '../../handlers/udev/src/rule.js'
import { ruleMatcher } from '../../handlers/udev/src/rule-matcher.js'
import type { MachineLinks } from '../../sdk/src/network/machine-links.js'

const root = path.join(import.meta.dirname, '../..')
const HANDLERS = ['mdns', 'onvif', 'opcua', 'ssdp', 'udev']
/** The names of messages and the time for answers, as test/standalone has them of the programs. */
const SEARCHES = [
  ['WS-Discovery Probes (UDP port 3702)', 1000],
  ['mDNS queries for _opcua-tcp (UDP port 5353)', 3500],
  ['mDNS queries for _ipp._tcp (UDP port 5353)', 3500],
  ['SSDP searches for upnp:rootdevice (UDP port 1900)', 2000],
] as const

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

/** The texts of searches in some circumstances. */
function searchTexts(): string[] {
  const link = {
    isLoopback: false,
    isDown: false,
    lacksCarrier: false,
    lacksMulticast: false,
    hasAddress: true,
  }
  const down: MachineLinks = {
    links: new Map([['eth0', { ...link, isDown: true }]]),
    isSeparate: true,
  }
  const clock = new ManualClock(0)
  return SEARCHES.flatMap(([messages, waitMs]) => {
    const remarks = (
      only: readonly string[] | undefined,
      act: (search: MulticastSearch) => void,
    ) => {
      const search = new MulticastSearch({ messages, waitMs, only, clock }, () => down)
      act(search)
      return search.remarks(true)
    }
    const eth0 = { interface: 'eth0', address: '10.20.0.5' }
    const refused = Object.assign(new Error('EPERM'), { code: 'EPERM' })
    return [
      ...remarks(undefined, () => {}),
      ...remarks(['eth0', 'eth1'], () => {}),
      ...remarks(undefined, (search) => search.failed(eth0, refused)),
      ...remarks(undefined, (search) => {
        for (const address of ['10.20.0.5', 'fe80::5%eth0'])
          search.sent({ interface: 'eth0', address })
        search.sent({ to: '10.30.0.7' })
        search.ignored('192.168.1.10')
      }),
    ]
  })
}

/** The reasons of cameras with a status of HTTP. */
const statusTexts = () =>
  [401, 403].map((status) => {
    const error = new OnvifReplyError(`GetSystemDateAndTime: HTTP status ${status}`)
    return unanswered('uuid', '10.0.0.7', new Map([['http://10.0.0.7/', error]])).reason
  })

/** What udev devices lack. */
function conditionTexts(): string[] {
  const device = {
    devpath: '/devices/1-1',
    kernel: '1-1',
    subsystem: 'usb',
    driver: undefined,
    devnode: undefined,
    tags: new Set<string>(),
    properties: new Map<string, string>(),
    parent: undefined,
    attribute: (name: string) => (name === 'idVendor' ? '1d6b' : undefined),
  }
  return ['ATTR{idVendor}', 'ATTR{serial}', 'ENV{ID_MODEL}', 'TAG'].flatMap((key) => {
    const found = new ClosestDevices([ruleMatcher(parseRule(`SUBSYSTEM=="usb", ${key}=="1234"`))])
    found.matches(device.devpath, device)
    return found.explain(() => device).flatMap(({ reason, detail }) => [reason, detail])
  })
}

/** The texts in the code of a handler: each expression in a template stands for any text. */
function codeTexts(handler: string): RegExp[] {
  const folder = path.join(root, `handlers/${handler}/src`)
  const texts: string[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isStringLiteral(node)) texts.push(escaped(node.text))
    if (ts.isTemplateExpression(node)) {
      const parts = [node.head, ...node.templateSpans.map(({ literal }) => literal)]
      // A template of few letters would match anything.
      if (parts.map(({ text }) => text).join('').length > 8)
        texts.push(parts.map(({ text }) => escaped(text)).join('.+'))
    }
    ts.forEachChild(node, visit)
  }
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' }))
    if (name.endsWith('.ts') && !/\.test\.ts$|testing\//.test(name)) {
      const file = path.join(folder, name)
      visit(ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true))
    }
  return texts.map((text) => new RegExp(`^${text}$`, 's'))
}

const isStartOf = (text: string, all: string) =>
  text.endsWith('…') && all.startsWith(text.slice(0, -1))
const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')

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
    const made = [...searchTexts(), ...statusTexts(), ...conditionTexts()]
    const code = codeTexts(handler)
    const isPrinted = (text: string) =>
      code.some((pattern) => pattern.test(text)) ||
      made.some((other) => other === text || isStartOf(text, other))
    const inOutputs = outputs(handler).flatMap((output) => {
      const { leftOut, remarks } = listOf(output)
      return [...leftOut.reasons.keys(), ...remarks]
    })
    const texts = quoted(handler)
    expect(texts.length).toBeGreaterThan(4)
    expect([...texts, ...inOutputs].filter((text) => !isPrinted(text))).toEqual([])
  })
})
