import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { load } from 'js-yaml'
import { beforeEach, expect, it } from 'vitest'
import { describeUnless } from '../support/unless.js'
import { MANIFESTS } from './folder.js'

// The script of the init container mounts the file system of reports. Each test runs the script in
// a mount namespace of its own, in which /var/lib is empty.

const run = promisify(execFile)
const AT = '/var/lib/akri-agent/broker-info'

interface DaemonSet {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly initContainers: readonly {
          readonly command: readonly [shell: string, option: string, script: string]
          readonly args: readonly [size: string]
        }[]
      }
    }
  }
}

const file = readFileSync(path.join(MANIFESTS, 'agent/daemonset.yaml'), 'utf8')
const [container = expect.fail('the DaemonSet has no init container')] = (load(file) as DaemonSet)
  .spec.template.spec.initContainers
const [SIZE] = container.args

const missing = process.getuid?.() === 0 ? [] : ['root']

describeUnless(missing, 'the init container of the agent', () => {
  let directory: string

  beforeEach(() => {
    directory = mkdtempSync(path.join(os.tmpdir(), 'akri-init-'))
  })

  /**
   * What commands on a node print. `init SIZE` runs the init container.
   * @param prefix a command that runs `init` with other rights
   */
  async function onNode(commands: string, prefix = ''): Promise<string[]> {
    const [shell, option, script] = container.command
    const message = path.join(directory, 'termination-log')
    const environment = { ...process.env, SCRIPT: script.replace('/dev/termination-log', message) }
    const setUp = `
      init() {
        ${prefix} ${shell} ${option} "$SCRIPT" "$1" >/dev/null 2>&1
        echo "exit $?"; if [ -s ${message} ]; then cat ${message}; rm ${message}; fi
      }
      mounted() { stat -f -c '%T %s*%b %c' ${AT}; }
      mount -t tmpfs empty /var/lib && mkdir /var/lib/akri-agent && cd ${directory} || exit 1`
    const all = ['--mount', '/bin/sh', '-c', `${setUp}\n${commands}`]
    const { stdout } = await run('unshare', all, { env: environment })
    return stdout.trim().split('\n')
  }

  it('R68 gives reports a file system of a set size, into which root alone may look', async () => {
    expect(SIZE).toBe('size=64m,nr_inodes=16384')
    const script = `init ${SIZE}; mounted; stat -c %a ${AT}; grep ${AT} /proc/self/mounts`
    const [exit, mounted, mode, options] = await onNode(script)
    expect([exit, mounted, mode]).toEqual(['exit 0', 'tmpfs 4096*16384 16384', '700'])
    expect(options).toMatch(/^akri-broker-info \S+ tmpfs rw,nosuid,nodev,noexec,/)
  })

  it('R68 keeps the reports that are there, and changes the size', async () => {
    const script = `
      init ${SIZE}; mkdir -p ${AT}/a/b; echo 1 >${AT}/a/b/c
      init size=8m,nr_inodes=2048; mounted; cat ${AT}/a/b/c; grep -c ${AT} /proc/self/mounts`
    expect(await onNode(script)).toEqual(['exit 0', 'exit 0', 'tmpfs 4096*2048 2048', '1', '1'])
  })

  it.each([
    [
      'directories of running containers are on the disk',
      `mkdir -p ${AT}/a/b`,
      `containers may use ${AT} on the disk: drain the node, and delete this Pod`,
      'a',
    ],
    [
      'the operator has mounted another',
      `mkdir -p ${AT} && mount -t tmpfs mine ${AT} && touch ${AT}/mine`,
      `${AT} has another file system`,
      'mine',
    ],
    [
      'there is more than the new size has room for',
      `init size=1m,nr_inodes=64; head -c 900000 /dev/zero >${AT}/large; SIZE=size=64k`,
      'it cannot be mounted, or has more content',
      'large',
    ],
    ['the size is none', 'SIZE=size=x', 'it cannot be mounted, or has more content', ''],
  ])('lets the agent start, and says why, if %s', async (_what, before, reason, content) => {
    const script = `SIZE=${SIZE}; { ${before}; } >/dev/null; init $SIZE; ls ${AT}`
    const lines = await onNode(script)
    expect(lines.slice(0, 2)).toEqual([
      'exit 0',
      expect.stringMatching(/^no file system of reports with size=/),
    ])
    expect(lines[1]).toContain(reason)
    expect(lines[2] ?? '').toBe(content)
  })

  it('R68 lets the agent start, and only root look, if it may not mount', async () => {
    const prefix = 'setpriv --bounding-set=-all --inh-caps=-all'
    const lines = await onNode(`init ${SIZE}; ls ${AT}; stat -c %a ${AT}`, prefix)
    expect(lines).toEqual(['exit 0', expect.stringContaining('it cannot be mounted'), '700'])
  })
})
