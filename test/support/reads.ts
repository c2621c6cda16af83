/** A value whose properties count how often they are read, at any depth. */
export function countReads<T extends object>(value: T): { readonly value: T; reads(): number } {
  let reads = 0
  const copies = new WeakMap<object, object>()
  const counted = <U>(part: U): U => {
    if (typeof part !== 'object' || part === null) return part
    const present = copies.get(part) ?? new Proxy(part, handler)
    copies.set(part, present)
    return present as U & object
  }
  const handler: ProxyHandler<object> = {
    get(target, key, receiver) {
      reads++
      return counted(Reflect.get(target, key, receiver))
    },
    getOwnPropertyDescriptor(target, key) {
      reads++
      return Reflect.getOwnPropertyDescriptor(target, key)
    },
  }
  return { value: counted(value), reads: () => reads }
}
