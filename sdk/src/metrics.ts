import { Counter, Gauge, Registry } from 'prom-client'

/**
 * The metrics of a program that serves handlers. The log counts the bugs
 * (`akri_internal_errors_total`).
 */
export class ServeMetrics {
  readonly registry = new Registry()
  readonly #streams = this.#gauge('akri_handler_streams', 'Discoveries that agents have open')
  readonly #devices = this.#gauge('akri_handler_devices', 'Devices in the list sent last')
  readonly #leftOut = this.#gauge(
    'akri_handler_left_out_devices',
    'Devices that the handler saw and left out of the list sent last',
  )
  readonly #problems = this.#gauge(
    'akri_handler_problem_devices',
    'Devices of the list sent last that have a problem, such as a refused credential',
  )
  readonly #registered = this.#gauge(
    'akri_handler_registered',
    'Whether the agent knows the handler (1) or not (0)',
  )
  readonly #lists = this.#counter('akri_handler_lists_total', 'Device lists sent')
  readonly #errors = this.#counter(
    'akri_handler_errors_total',
    'Discoveries that ended with an error',
  )
  readonly #registrations = this.#counter(
    'akri_handler_registrations_total',
    'Registrations with an agent',
  )

  /** @param handlers the names of the handlers: their metrics are 0 from the start, not absent */
  constructor(handlers: readonly string[]) {
    for (const handler of handlers) {
      const { lists, errors, registrations, ...gauges } = this.of(handler)
      for (const gauge of Object.values(gauges)) gauge.set(0)
      for (const counter of [lists, errors, registrations]) counter.inc(0)
    }
  }

  of(handler: string): HandlerMetrics {
    return {
      streams: this.#streams.labels(handler),
      devices: this.#devices.labels(handler),
      leftOut: this.#leftOut.labels(handler),
      problems: this.#problems.labels(handler),
      registered: this.#registered.labels(handler),
      lists: this.#lists.labels(handler),
      errors: this.#errors.labels(handler),
      registrations: this.#registrations.labels(handler),
    }
  }

  #gauge(name: string, help: string): Gauge {
    return new Gauge({ name, help, labelNames: ['handler'], registers: [this.registry] })
  }

  #counter(name: string, help: string): Counter {
    return new Counter({ name, help, labelNames: ['handler'], registers: [this.registry] })
  }
}

export interface HandlerMetrics {
  readonly streams: Gauge.Internal<string>
  readonly devices: Gauge.Internal<string>
  readonly leftOut: Gauge.Internal<string>
  readonly problems: Gauge.Internal<string>
  readonly registered: Gauge.Internal<string>
  readonly lists: Counter.Internal
  readonly errors: Counter.Internal
  readonly registrations: Counter.Internal
}
