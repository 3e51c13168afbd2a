/**
 * The named shapes of the API description: whatever is registered here stands once under `components.schemas`, and
 * everything else refers to it. A shape of an answer may gain members and values in time, one of a request is closed, so
 * most that go both ways have two names. A small one whose members are the client's own has one for both: what a client
 * reads it can send back.
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

/** Names a shape that is the same in both directions. */
export function both<I extends z.ZodType, O extends z.ZodType>(id: string, taken: I, given: O): { taken: I; given: O } {
  return { taken: input(id, taken), given: output(id, given) }
}
