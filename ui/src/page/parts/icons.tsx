import type { ComponentChildren } from 'preact'
import { type DeviceKind, KIND_WORDS } from '../model/device-kind.js'

const SHAPES: Readonly<Record<DeviceKind, ComponentChildren>> = {
  camera: (
    <>
      <path d="M3 9.5 15.5 6l1.6 5.6L4.6 15z" />
      <path d="m17.1 9.6 3.4.6-1 3-2.4-1.6M8 14.2V18h-4.5M3.5 16v4" />
    </>
  ),
  controller: (
    <>
      <rect x="4" y="4" width="16" height="16" rx="2" />
      <path d="M8 4v16M12 8.5h4.5M12 12h4.5M12 15.5h4.5" />
    </>
  ),
  device: (
    <>
      <path d="m12 3 8 4.5v9L12 21l-8-4.5v-9z" />
      <path d="m4 7.5 8 4.5 8-4.5M12 12v9" />
    </>
  ),
  disk: (
    <>
      <path d="M5.5 5h13L21 14v5H3v-5z" />
      <path d="M3 14h18M16.5 16.5h1.5" />
    </>
  ),
  input: (
    <>
      <rect x="3" y="7" width="18" height="10.5" rx="2" />
      <path d="M7 10.5h.01M10.5 10.5h.01M14 10.5h.01M17 10.5h.01M8 14h8" />
    </>
  ),
  memory: (
    <>
      <rect x="6.5" y="6.5" width="11" height="11" rx="1.5" />
      <path d="M9.5 6.5v-3M14.5 6.5v-3M9.5 20.5v-3M14.5 20.5v-3" />
      <path d="M6.5 9.5h-3M6.5 14.5h-3M20.5 9.5h-3M20.5 14.5h-3" />
    </>
  ),
  network: (
    <>
      <rect x="9" y="3.5" width="6" height="5" rx="1" />
      <rect x="3" y="15.5" width="6" height="5" rx="1" />
      <rect x="15" y="15.5" width="6" height="5" rx="1" />
      <path d="M12 8.5V12M6 15.5V12h12v3.5" />
    </>
  ),
  printer: (
    <>
      <path d="M7 9V4h10v5M7 17H4.5V9h15v8H17" />
      <rect x="7" y="14" width="10" height="6" />
    </>
  ),
  serial: (
    <>
      <path d="M3.5 7.5h17l-2 9h-13z" />
      <path d="M8 10.7h.01M12 10.7h.01M16 10.7h.01M10 13.6h.01M14 13.6h.01" />
    </>
  ),
  service: (
    <>
      <circle cx="12" cy="12" r="2" />
      <path d="M8 16a5.6 5.6 0 0 1 0-8M16 8a5.6 5.6 0 0 1 0 8" />
      <path d="M5.2 18.8a9.6 9.6 0 0 1 0-13.6M18.8 5.2a9.6 9.6 0 0 1 0 13.6" />
    </>
  ),
  speaker: (
    <>
      <rect x="6" y="3" width="12" height="18" rx="2" />
      <circle cx="12" cy="14" r="3.2" />
      <path d="M12 7h.01" />
    </>
  ),
  television: (
    <>
      <rect x="3" y="5" width="18" height="12" rx="2" />
      <path d="M8.5 20.5h7" />
    </>
  ),
  usb: (
    <>
      <path d="M12 20V5M9.8 7 12 4l2.2 3M12 16l-4.5-3v-2.2M12 13.5l4.5-2.7V9" />
      <circle cx="12" cy="20" r="1.4" />
      <circle cx="7.5" cy="9.6" r="1.2" />
      <rect x="15.4" y="6.6" width="2.2" height="2.2" />
    </>
  ),
}

/** @param kind tells people who do not see the icon what it shows */
export function KindIcon({ kind }: { readonly kind: DeviceKind }) {
  return (
    <svg class="kind" viewBox="0 0 24 24" role="img" aria-label={KIND_WORDS[kind]}>
      {SHAPES[kind]}
    </svg>
  )
}

export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
      <rect width="24" height="24" rx="6.5" />
      <circle cx="12" cy="12" r="2.6" />
      <path d="M12 9.4V5M12 19v-4.4M14.6 12H19M5 12h4.4" />
    </svg>
  )
}
