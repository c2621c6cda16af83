// The binary of the npm package usb, for one platform of the images.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { root } from '../workspaces.mjs'

/**
 * Unpacks the package with the binary into node_modules of a directory. npm installs that of this
 * machine only: the tarball comes from .cache/usb-binaries, or else from npm. Its digest is that of
 * package-lock.json.
 * @param {string} name
 * @param {string} app
 */
export function unpackUsbBinary(name, app) {
  const { packages } = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8'))
  const { version, integrity } = packages[`node_modules/${name}`]
  const kept = path.join(root, '.cache/usb-binaries')
  const tarball = path.join(kept, `${name.slice(1).replace('/', '-')}-${version}.tgz`)
  if (!existsSync(tarball)) {
    mkdirSync(kept, { recursive: true })
    const args = ['pack', '--silent', '--pack-destination', kept, `${name}@${version}`]
    execFileSync('npm', args, { stdio: ['ignore', 'ignore', 'inherit'] })
  }
  const digest = createHash('sha512').update(readFileSync(tarball)).digest('base64')
  if (`sha512-${digest}` !== integrity)
    throw new TypeError(`${tarball} is not as package-lock.json says`)
  const directory = path.join(app, 'node_modules', name)
  mkdirSync(directory, { recursive: true })
  execFileSync('tar', ['-xzf', tarball, '-C', directory, '--strip-components=1', '--no-same-owner'])
}
