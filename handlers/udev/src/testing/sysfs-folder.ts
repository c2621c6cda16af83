import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

interface FolderDevice {
  readonly class?: string
  readonly bus?: string
  readonly uevent?: Readonly<Record<string, string>>
  /** Names of links, with their targets below the root of sysfs. */
  readonly links?: Readonly<Record<string, string>>
}

/** A sysfs of files. */
export class SysfsFolder {
  readonly #root: string
  readonly roots: { readonly sysfsRoot: string; readonly runUdevRoot: string }

  /** @param parent an existing directory, such as a directory in memory */
  constructor(parent = os.tmpdir()) {
    this.#root = mkdtempSync(path.join(parent, 'akri-sysfs-'))
    this.roots = {
      sysfsRoot: path.join(this.#root, 'sys'),
      runUdevRoot: path.join(this.#root, 'run'),
    }
  }

  add(devpath: string, { class: className, bus, uevent = {}, links = {} }: FolderDevice): void {
    const directory = path.join(this.roots.sysfsRoot, devpath)
    mkdirSync(directory, { recursive: true })
    writeFileSync(
      path.join(directory, 'uevent'),
      Object.entries(uevent)
        .map(([key, value]) => `${key}=${value}\n`)
        .join(''),
    )
    const subsystem = className === undefined ? `/bus/${bus}` : `/class/${className}`
    for (const [name, target] of Object.entries({ subsystem, ...links })) {
      symlinkSync(
        path.relative(directory, path.join(this.roots.sysfsRoot, target)),
        path.join(directory, name),
      )
    }
    const entry = path.join(
      className === undefined ? `${subsystem}/devices` : subsystem,
      path.basename(devpath),
    )
    this.link(entry, path.relative(path.dirname(entry), devpath))
  }

  link(entry: string, target: string): void {
    const file = path.join(this.roots.sysfsRoot, entry)
    mkdirSync(path.dirname(file), { recursive: true })
    symlinkSync(target, file)
  }

  database(id: string, lines: readonly string[]): void {
    mkdirSync(path.join(this.roots.runUdevRoot, 'data'), { recursive: true })
    writeFileSync(path.join(this.roots.runUdevRoot, 'data', id), `${lines.join('\n')}\n`)
  }

  /** Writes an attribute of a device. */
  attribute(devpath: string, name: string, text: string): void {
    writeFileSync(path.join(this.roots.sysfsRoot, devpath, name), text)
  }

  /** Writes a file of udevd: `control` while it runs, `queue` while it has events. */
  udevd(name: 'control' | 'queue', exists = true): void {
    const file = path.join(this.roots.runUdevRoot, name)
    mkdirSync(this.roots.runUdevRoot, { recursive: true })
    if (exists) writeFileSync(file, '')
    else rmSync(file)
  }

  /** Removes a device with its entry of a class. */
  delete(devpath: string, className: string): void {
    rmSync(path.join(this.roots.sysfsRoot, 'class', className, path.basename(devpath)))
    rmSync(path.join(this.roots.sysfsRoot, devpath), { recursive: true })
  }

  remove(): void {
    rmSync(this.#root, { recursive: true, force: true })
  }
}
