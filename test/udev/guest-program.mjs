// The program beside the devices, in a USB machine or beside a separate udevd: it runs a built
// handler. Requests are lines of JSON over the named port, or over standard input and output.
//   {"id":1,"run":"lsblk","input":"…"}   -> {"id":1,"status":0,"output":"…"}
//   {"id":2,"watch":{"udevRules":[…]}}   -> {"id":2,"list":[…]} for each list of the udev handler
//   {"id":2,"watch":{…},"handler":"usb"} the same of another handler
//   {"id":2,"watch":{…},"alone":true}    the same in a network namespace of its own, as in a Pod
//   {"id":2,"stop":true}                 -> {"id":2,"ended":true}
import { execFile, spawn } from 'node:child_process'
import { createReadStream, openSync, writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import udev from '@akrijs/handler-udev'
import usb from '@akrijs/handler-usb'
import { DiscoveryProperties, messageOf, silentLogger } from '@akrijs/sdk'
import { openDiscovery } from '@akrijs/sdk/host'

const HANDLERS = { udev, usb }
const [, , port] = process.argv
const [input, output] = port === undefined ? [0, 1] : Array(2).fill(openSync(port, 'r+'))
const watches = new Map()

const say = (message) => {
  let rest = Buffer.from(`${JSON.stringify(message)}\n`)
  // The port accepts 32 KiB at a time.
  while (rest.length > 0) rest = rest.subarray(writeSync(output, rest))
}

async function watch({ id, watch: details, handler = 'udev' }) {
  const stop = new AbortController()
  watches.set(id, stop)
  const properties = new DiscoveryProperties()
  const request = {
    details: JSON.stringify(details),
    properties,
    signal: stop.signal,
    log: silentLogger,
  }
  try {
    for await (const list of openDiscovery(HANDLERS[handler], request)) {
      say({ id, list })
    }
    say({ id, ended: true })
  } catch (error) {
    say({ id, ended: true, error: messageOf(error) })
  }
}

/** A second program of this kind, for one discovery. */
function watchAlone({ alone: _, ...request }) {
  const { id } = request
  const command = ['--net', process.execPath, import.meta.filename]
  const child = spawn('unshare', command, { stdio: ['pipe', 'pipe', 'inherit'] })
  watches.set(id, { abort: () => child.stdin.end() })
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (!JSON.parse(line).ready) say(JSON.parse(line))
  })
  child.stdin.write(`${JSON.stringify(request)}\n`)
}

say({ ready: true })
for await (const line of createInterface({ input: createReadStream('', { fd: input }) })) {
  const request = JSON.parse(line)
  const { id, run, input: text, alone, stop } = request
  if (run !== undefined) {
    const child = execFile('sh', ['-c', run], { maxBuffer: 1 << 24 }, (error, stdout, stderr) => {
      say({ id, status: error === null ? 0 : (error.code ?? 1), output: stdout + stderr })
    })
    // A command that reads no input may have ended already.
    child.stdin.on('error', () => child.stdin.destroy())
    child.stdin.end(text)
  }
  if (request.watch !== undefined) void (alone ? watchAlone : watch)(request)
  if (stop) watches.get(id)?.abort()
}
process.exit()
