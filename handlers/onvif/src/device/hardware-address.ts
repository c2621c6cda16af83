/** One spelling of a hardware address: `02-00-00-00-AB-CD` and `02:00:00:00:ab:cd` are equal. */
export function bareHardwareAddress(text: string): string {
  return text.replace(/[-:.\s]/g, '').toLowerCase()
}
