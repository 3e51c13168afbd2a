/** OPTIONS: returns a resource's allowed methods. */

import type { HttpResponse } from '../../http/message.ts'
import type { QualifiedName, SchemaCache, Table } from '../../schema-cache/types.ts'
import { notFound } from '../plan/call.ts'

export const allowed = (methods: readonly string[]): HttpResponse => ({
  status: 200,
  headers: [['Allow', ['OPTIONS', ...methods].join(',')]],
  body: '',
})

export function tableMethods({ insertable, updatable, deletable, primaryKey }: Table): string[] {
  return [
    'GET',
    'HEAD',
    ...(insertable ? ['POST'] : []),
    ...(insertable && updatable && primaryKey.length > 0 ? ['PUT'] : []),
    ...(updatable ? ['PATCH'] : []),
    ...(deletable ? ['DELETE'] : []),
  ]
}

export function functionMethods(cache: SchemaCache, { schema, name }: QualifiedName): string[] {
  const overloads = cache.routines.get(schema)?.get(name)
  if (overloads === undefined) throw notFound(cache, { schema, name }, { names: new Set(), unnamed: undefined })
  return overloads.every(({ volatility }) => volatility === 'volatile') ? ['POST'] : ['GET', 'HEAD', 'POST']
}
