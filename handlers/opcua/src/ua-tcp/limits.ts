/** What a peer may send us, and what a question may cost. */
export interface UaTcpLimits {
  /** The largest chunk, in bytes with its header; OPC 10000-6, 7.1.2.3 wants 8192 at least. @default 65536 */
  readonly chunkBytes: number
  /** The largest answer, in bytes without headers of chunks. @default 1048576 */
  readonly messageBytes: number
  /** The most chunks of one answer. @default 256 */
  readonly chunks: number
  /** The most elements of an array. @default 2000 */
  readonly elements: number
}

export const UA_TCP_LIMITS: UaTcpLimits = {
  chunkBytes: 65_536,
  messageBytes: 1024 * 1024,
  chunks: 256,
  elements: 2000,
}
