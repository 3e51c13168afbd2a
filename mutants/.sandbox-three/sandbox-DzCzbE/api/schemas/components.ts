/**
 * The named shapes of the API description: whatever is registered here stands once under `components.schemas`, and
 * everything else refers to it. Bodies that come in and bodies that go out are kept apart, since they differ in which
 * fields may be left out.
 */
// @ts-nocheck

import { z } from 'zod'

export const inputComponents = z.registry<{ id: string }>()
export const outputComponents = z.registry<{ id: string }>()

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
