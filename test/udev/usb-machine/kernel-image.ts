import { execFile, spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** A bootable kernel with its modules. */
export interface KernelImage {
  /** Such as `6.1.0-40-amd64`. */
  readonly version: string
  /** The file of the kernel itself. */
  readonly kernel: string
  /** The directory for `/lib/modules` of the machine. */
  readonly modules: string
}

/** The programs that a USB machine needs on this machine. */
const NEEDED: readonly (readonly [what: string, present: () => boolean])[] = [
  ['an x64 machine', () => process.arch === 'x64'],
  ['the Debian package qemu-system-x86', () => has('qemu-system-x86_64')],
  [
    'the Debian package busybox-static',
    () => existsSync(BUSYBOX) && spawnSync('ldd', [BUSYBOX]).status !== 0,
  ],
  ['the Debian package cpio', () => has('cpio')],
  ['the Debian package kmod', () => has('modprobe') && has('depmod')],
  ['the Debian package udev', () => existsSync('/lib/systemd/systemd-udevd') && has('udevadm')],
  [
    'setpriv of util-linux',
    () => spawnSync('setpriv', ['--pdeathsig', 'KILL', 'true'], { env: searchPath }).status === 0,
  ],
]

const BUSYBOX = '/bin/busybox'
/** `depmod` and `modprobe` are in directories of root. */
const searchPath = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` }
/**
 * The modules of the first stage, before the modules of the image: the bus and the two file
 * systems.
 */
const FIRST_MODULES = ['virtio_pci', '9pnet_virtio', '9p', 'overlay']

/**
 * Debian's kernel, unpacked in a folder without an installation. It is downloaded once and kept
 * outside of the repository, in `AKRI_CACHE`, or `/var/cache/akri-tests` (root), or
 * `~/.cache/akri-tests`. Returns the missing parts if this is not possible.
 */
export async function kernelImage(): Promise<KernelImage | { readonly missing: string }> {
  const missing = NEEDED.filter(([, present]) => !present()).map(([what]) => what)
  if (missing.length > 0) return { missing: missing.join(', ') }
  const kept = path.join(cacheRoot(), 'usb-machine-kernel')
  try {
    if (!existsSync(kept)) await fetchKernel(kept)
  } catch (error) {
    const reason =
      error instanceof Error ? error.message.split('\n').slice(0, 2).join(' ') : String(error)
    return { missing: `a kernel: apt-get download linux-image-amd64 failed (${reason})` }
  }
  const [version] = readdirSync(path.join(kept, 'lib/modules'))
  if (version === undefined) return { missing: `a kernel: ${kept} is incomplete, delete it` }
  return {
    version,
    kernel: path.join(kept, `boot/vmlinuz-${version}`),
    modules: path.join(kept, 'lib/modules'),
  }
}

/** Writes the initial file system of the kernel: busybox, a few modules, and `init.sh`. */
export async function writeInitramfs(image: KernelImage, file: string): Promise<void> {
  const tree = await mkdtemp(path.join(os.tmpdir(), 'akri-initramfs-'))
  try {
    for (const folder of ['bin', 'dev', 'proc', 'sys', 'run', 'modules', 'newroot'])
      await mkdir(path.join(tree, folder))
    await cp(BUSYBOX, path.join(tree, 'bin/busybox'), { dereference: true })
    await cp(path.join(import.meta.dirname, 'init.sh'), path.join(tree, 'init'))
    for (const [index, module] of (await modulesInOrder(image)).entries()) {
      const target = path.join(
        tree,
        `modules/${String(index).padStart(3, '0')}-${path.basename(module).replace(/\.xz$/, '')}`,
      )
      if (!module.endsWith('.xz')) await cp(module, target)
      else
        await writeFile(
          target,
          (await run('xz', ['-dc', module], { encoding: 'buffer', maxBuffer: 1 << 26 })).stdout,
        )
    }
    await run(
      'sh',
      ['-c', 'chmod +x init && find . | cpio --create --format=newc --quiet > "$0"', file],
      { cwd: tree },
    )
  } finally {
    await rm(tree, { recursive: true, force: true })
  }
}

/** The modules of the first stage in the order of their dependencies. */
async function modulesInOrder({ version, modules }: KernelImage): Promise<string[]> {
  const root = path.dirname(path.dirname(modules))
  const files = new Set<string>()
  for (const name of FIRST_MODULES) {
    const args = ['--dirname', root, '--set-version', version, '--dry-run', '--show-depends', name]
    const { stdout } = await run('modprobe', args, { env: searchPath })
    for (const line of stdout.split('\n')) {
      const file = /^insmod (\S+)/.exec(line)?.[1]
      if (file !== undefined) files.add(file)
    }
  }
  return [...files]
}

async function fetchKernel(kept: string): Promise<void> {
  await mkdir(path.dirname(kept), { recursive: true })
  const work = await mkdtemp(`${kept}.`)
  try {
    const { stdout } = await run('apt-cache', ['depends', '--important', 'linux-image-amd64'])
    const name = /Depends: (linux-image-\S+)/.exec(stdout)?.[1] ?? 'linux-image-amd64'
    // As root, apt downloads as a user without write access here.
    await run('apt-get', ['-qq', '-oAPT::Sandbox::User=root', 'download', name], {
      cwd: work,
      timeout: 120_000,
    })
    const [archive = ''] = (await readdir(work)).filter((file) => file.endsWith('.deb'))
    const tree = path.join(work, 'tree')
    await run('dpkg-deb', ['--extract', path.join(work, archive), tree])
    const [version = ''] = await readdir(path.join(tree, 'lib/modules'))
    await run('depmod', ['--basedir', tree, version], { env: searchPath })
    await rename(tree, kept).catch((error: NodeJS.ErrnoException) => {
      // Another run finished first.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
    })
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

function cacheRoot(): string {
  if (process.env.AKRI_CACHE) return path.resolve(process.env.AKRI_CACHE)
  return process.getuid?.() === 0
    ? '/var/cache/akri-tests'
    : path.join(os.homedir(), '.cache/akri-tests')
}

function has(command: string): boolean {
  return spawnSync('sh', ['-c', 'command -v "$0"', command], { env: searchPath }).status === 0
}
