/** Names of the server's own tools, including disabled tools. A custom tool must not have one of these names. */
export const reservedToolNames: readonly string[] = [
  'query_database',
  'execute_explain',
  'get_schema_info',
  'count_rows',
  'similarity_search',
  'generate_embedding',
  'search_knowledgebase',
  'read_resource',
  'check_health',
  'top_queries',
  'advise_indexes',
  'authenticate_user',
]
