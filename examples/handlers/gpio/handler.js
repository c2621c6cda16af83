// Finds GPIO chips: their labels in sysfs, and their device nodes.
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { defineDiscoveryHandler, every } from '@akrijs/sdk'
import { z } from 'zod'

const Details = z.strictObject({
  /** Labels of chips, such as `pinctrl-bcm2835`. Without any, all chips. */
  labels: z.array(z.string()).max(100).default([]),
  /** Where the kernel lists the chips. */
  sysfs: z.string().startsWith('/').default('/sys/bus/gpio/devices'),
})

export default defineDiscoveryHandler({
  name: 'gpio',
  shared: false,
  details: Details,
  async *discover({ details: { labels, sysfs }, signal, leaveOut }) {
    for await (const _ of every('5s', { signal })) {
      const chips = []
      const names = await readdir(sysfs).catch(() => [])
      for (const name of names.filter((each) => /^gpiochip\d+$/.test(each)).sort()) {
        const label = await labelOf(path.join(sysfs, name))
        if (labels.length > 0 && !labels.includes(label)) leaveOut(name, 'has another label', label)
        else chips.push(chipOf(name, label))
      }
      yield chips
    }
  },
})

function chipOf(name, label) {
  const node = `/dev/${name}`
  return {
    id: name,
    properties: { GPIO_DEVICE: node, GPIO_LABEL: label },
    deviceSpecs: [{ hostPath: node, containerPath: node, permissions: 'rw' }],
  }
}

/** The chip itself has a label, or its platform device has a name. */
async function labelOf(chip) {
  for (const file of ['label', 'device/of_node/name', 'of_node/name']) {
    const text = await readFile(path.join(chip, file), 'utf8').catch(() => undefined)
    if (text !== undefined) return text.replace(/[\0\n].*/s, '')
  }
  return undefined
}
