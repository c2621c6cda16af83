/* usage: find URL
 * FindServers and GetEndpoints by the client of open62541. A line for each application and each endpoint. */
#include <open62541/client.h>
#include <open62541/client_config_default.h>
#include <stdio.h>

#define TEXT(string) (int)(string).length, (string).data

static UA_Client *makeClient(void) {
  UA_Client *client = UA_Client_new();
  UA_ClientConfig_setDefault(UA_Client_getConfig(client));
  UA_Client_getConfig(client)->timeout = 2000;
  return client;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;

  UA_Client *client = makeClient();
  UA_ApplicationDescription *servers = NULL;
  size_t count = 0;
  UA_StatusCode status = UA_Client_findServers(client, argv[1], 0, NULL, 0, NULL, &count, &servers);
  printf("FindServers %s\n", UA_StatusCode_name(status));
  for (size_t i = 0; i < count; i++)
    printf("application %d %.*s\n", servers[i].applicationType, TEXT(servers[i].applicationName.text));
  UA_Array_delete(servers, count, &UA_TYPES[UA_TYPES_APPLICATIONDESCRIPTION]);
  UA_Client_delete(client);

  client = makeClient();
  UA_EndpointDescription *endpoints = NULL;
  count = 0;
  status = UA_Client_getEndpoints(client, argv[1], &count, &endpoints);
  printf("GetEndpoints %s\n", UA_StatusCode_name(status));
  for (size_t i = 0; i < count; i++)
    printf("endpoint %d %.*s\n", endpoints[i].securityMode, TEXT(endpoints[i].securityPolicyUri));
  UA_Array_delete(endpoints, count, &UA_TYPES[UA_TYPES_ENDPOINTDESCRIPTION]);
  UA_Client_delete(client);
  return 0;
}
