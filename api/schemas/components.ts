/**
 * The named shapes of the API description. Each registered shape occurs once under `components.schemas`, and everything
 * else refers to it. A response shape may gain members and values over time, but a request shape is closed. So most
 * shapes used in both have two names. A small shape that contains only client input has one name, so that a client can
 * send back what it reads.
 */
import { z } from 'zod'

export const inputComponents = z.registry<{ id: string }>()
export const outputComponents = z.registry<{ id: string }>()

export const componentPath = (id: string): string => `#/components/schemas/${id}`

/** Names a shape of a request body. */
export function input<S extends z.ZodType>(id: string, schema: S): S {
  inputComponents.add(schema, { id })
  return schema
}

/** Names a shape of a response body. */
export function output<S extends z.ZodType>(id: string, schema: S): S {
  outputComponents.add(schema, { id })
  return schema
}

/** Names a shape that is the same in requests and responses. */
export function both<I extends z.ZodType, O extends z.ZodType>(id: string, taken: I, given: O): { taken: I; given: O } {
  return { taken: input(id, taken), given: output(id, given) }
}
